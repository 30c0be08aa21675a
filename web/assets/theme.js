// Before the first paint: the theme that was chosen on this device. Not a module, since modules run later.
try {
  const theme = localStorage.getItem("pagoda.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows the system's theme.
}

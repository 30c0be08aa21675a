// Runs the program as a user would, and says what it printed and how it ended.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fixtures/temporary_folder.h"

namespace pagoda::cli {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

using Folder = fixtures::TemporaryFolder;

/// A started program whose output goes to files.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, const std::string& input = {}) {
    arguments.insert(arguments.begin(), PAGODA_PROGRAM);
    folder_.write("in", input);
    child_ = fork();
    if (child_ != 0) return;
    redirect(folder_.file("in"), O_RDONLY, STDIN_FILENO);
    redirect(folder_.file("out"), O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(folder_.file("err"), O_WRONLY | O_CREAT, STDERR_FILENO);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }

  void interrupt(int signal = SIGINT) const { kill(child_, signal); }

  /// What it has printed so far; waits until there is something.
  bool wait_for_output() const {
    for (int i = 0; i < 20000; ++i) {
      if (!read_file(folder_.file("out")).empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Outcome wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return {.code = code, .out = read_file(folder_.file("out")), .err = read_file(folder_.file("err"))};
  }

 private:
  static void redirect(const std::string& path, int flags, int descriptor) {
    const int file = open(path.c_str(), flags, 0600);
    dup2(file, descriptor);
    close(file);
  }

  Folder folder_;
  pid_t child_ = -1;
};

inline Outcome run(std::vector<std::string> arguments, const std::string& input = {}) {
  return Program(std::move(arguments), input).wait();
}

}  // namespace pagoda::cli

"""The reference renderer: Python's jinja2 as transformers sets it up for chat templates.

Needs `pip install jinja2==3.1.6 transformers==5.24.0` (no torch); used by make_template_goldens.py and to try out
single templates.
"""
import datetime
import os
import time

os.environ["TZ"] = "UTC"
time.tzset()

from transformers.utils import chat_template_utils  # noqa: E402

NOW = 1753500000  # what strftime_now shows: 2025-07-26 03:20:00 UTC
BOS, EOS = "<s>", "</s>"


class FrozenDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW)


chat_template_utils.datetime = FrozenDatetime


def render(template, conversation):
    """("out", text), ("error", the words of the exception), or ("limit", "") where Python's stack ran out."""
    variables = {
        "messages": conversation["messages"],
        "add_generation_prompt": conversation.get("add_generation_prompt", True),
        "bos_token": BOS,
        "eos_token": EOS,
        **conversation.get("arguments", {}),
    }
    if "tools" in conversation:
        variables["tools"] = conversation["tools"]
    try:
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        return "out", compiled.render(**variables)
    except RecursionError:
        return "limit", ""
    except Exception as error:
        return "error", str(error)

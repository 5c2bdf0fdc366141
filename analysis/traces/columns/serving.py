"""Forward passes of inference servers, told by the ranges that these put into profiles.

| server | range | source |
|---|---|---|
| vLLM | `execute_context_1(512)_generation_3(3)`, with "sq" sums where it details them | `annotate_profile` in `vllm/v1/worker/gpu_worker.py` |
| SGLang | `step[EXTEND bs=1 toks=512]`, `step[DECODE bs=3]`, `step[MIXED ...]` | `build_step_span_name` in `sglang/srt/utils/profile_utils.py` |
| TensorRT-LLM | `[Executor] _forward_step 3: 1 ctx reqs, 512 ctx tokens, 3 gen reqs` | `_forward_step` in `tensorrt_llm/_torch/pyexecutor/py_executor.py` |
| ATOM | `prefill[bs=2 tok=16384]`, `decode[bs=16 tok=16]` | profiles that were quoted in public |
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Phase = Literal["prefill", "decode", "mixed", "idle"]
PHASES: tuple[Phase, ...] = ("prefill", "decode", "mixed", "idle")
RANGE_CACHE_SIZE = 65_536
"""Names that are remembered: batches of every size have their own."""


@dataclass(frozen=True)
class ForwardPass:
    """What a range says of its pass; None where it does not."""

    server: str
    prefill_requests: int | None
    prefill_tokens: int | None
    decode_requests: int | None
    decode_tokens: int | None

    @property
    def phase(self) -> Phase:
        """Prompts are worked off, tokens are made, or both."""
        if self.prefill_requests:
            return "mixed" if self.decode_requests else "prefill"
        return "decode" if self.decode_requests else "idle"


def pass_of(name: str) -> ForwardPass | None:
    """The forward pass that a range stands for; None for other ranges."""
    # Nearly all names of a trace are none of these.
    if not name.startswith(_BEGINNINGS):
        return None
    return _pass_of(name)


@lru_cache(maxsize=RANGE_CACHE_SIZE)
def _pass_of(name: str) -> ForwardPass | None:
    for pattern, read in _READERS:
        match = pattern.match(name)
        if match is not None:
            return read(match)
    return None


def _vllm(match: re.Match[str]) -> ForwardPass:
    return ForwardPass("vLLM", *(int(number) for number in match.groups()))


def _sglang(match: re.Match[str]) -> ForwardPass:
    mode, requests, tokens, more = match[1], int(match[2]), _number(match[3]), match[4]
    if mode == "MIXED":
        parts = dict(_PART.findall(more))
        if "c" in parts:
            numbers = [_number(parts.get(key)) for key in ("c", "c_sq", "g", "g_sq")]
            return ForwardPass("SGLang", *numbers)
        # Without details a mixed batch says only how many requests there are.
        return ForwardPass("SGLang", requests, None, requests, None)
    if mode == "IDLE":
        return ForwardPass("SGLang", 0, 0, 0, 0)
    if mode in ("EXTEND", "DLLM_EXTEND", "SPLIT_PREFILL"):
        return ForwardPass("SGLang", requests, tokens, 0, 0)
    # A pass that verifies drafts makes several tokens a request; how many is not said.
    return ForwardPass("SGLang", 0, 0, requests, requests if mode == "DECODE" else None)


def _tensorrt(match: re.Match[str]) -> ForwardPass:
    contexts, tokens, made = int(match[1]), _number(match[2]), int(match[3])
    return ForwardPass("TensorRT-LLM", contexts, tokens if contexts else 0, made, made)


def _atom(match: re.Match[str]) -> ForwardPass:
    requests, tokens = int(match[2]), _number(match[3])
    if match[1] == "prefill":
        return ForwardPass("ATOM", requests, tokens, 0, 0)
    return ForwardPass("ATOM", 0, 0, requests, tokens if tokens is not None else requests)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


_N = r"(\d{1,12})"
_PART = re.compile(rf"\b([a-z_]+)={_N}\b")
_Reader = Callable[[re.Match[str]], ForwardPass]
_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (
        re.compile(
            rf"^execute_(?:\d{{1,12}}_)?context_{_N}\((?:sq)?{_N}(?:[a-z][a-z0-9]*)?\)"
            rf"_generation_{_N}\((?:sq)?{_N}(?:[a-z][a-z0-9]*)?\)$"
        ),
        _vllm,
    ),
    (re.compile(rf"^step\[([A-Z][A-Z_]*) bs={_N}(?: toks={_N})?([^\]]*)\]$"), _sglang),
    (
        re.compile(
            rf"^\[Executor\] _forward_step \d{{1,12}}: {_N} ctx reqs, "
            rf"(?:{_N} ctx tokens, )?{_N} gen reqs$"
        ),
        _tensorrt,
    ),
    (re.compile(rf"^(prefill|decode)\[bs={_N}(?: toks?={_N})?[^\]]*\]$"), _atom),
)
_BEGINNINGS = ("execute_", "step[", "[Executor] ", "prefill[", "decode[")

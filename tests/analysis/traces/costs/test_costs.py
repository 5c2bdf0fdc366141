from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.costs.models import MODELS, cost_of
from tests.torch_python import torch_python

BF16, FP8, FP32, INT = "c10::BFloat16", "c10::Float8_e4m3fn", "float", "int"
KINETO_JOB = Path(__file__).with_name("counted_by_pytorch.py")


def cost(name: str, dims: list[Any], types: list[str], values: list[str] | None = None) -> Any:
    written = [json.dumps(part, separators=(",", ":")) for part in (dims, types, values or [])]
    return cost_of(name, *written)


def test_a_matrix_product_is_two_operations_for_each_element_and_each_of_k() -> None:
    found = cost("aten::mm", [[141, 512], [512, 2048]], [BF16, BF16])
    assert found.flops == 2 * 141 * 512 * 2048
    assert found.bytes == 2 * (141 * 512 + 512 * 2048 + 141 * 2048)
    assert (found.precision, found.on_matrix_units) == ("bf16", True)


def test_a_bias_is_added_to_each_element() -> None:
    found = cost("aten::addmm", [[512], [141, 512], [512, 512], [], []], [BF16] * 3)
    assert found.flops == 2 * 141 * 512 * 512 + 141 * 512
    assert found.bytes == 2 * (512 + 141 * 512 + 512 * 512 + 141 * 512)


def test_a_batch_multiplies_everything() -> None:
    found = cost("aten::bmm", [[16, 100, 64], [16, 64, 30]], [FP32, FP32])
    assert found.flops == 16 * 2 * 100 * 64 * 30
    assert found.bytes == 4 * 16 * (100 * 64 + 64 * 30 + 100 * 30)


def test_eight_bit_products_have_sixteen_bit_results() -> None:
    found = cost("aten::_scaled_mm", [[128, 256], [256, 64], [], []], [FP8, FP8])
    assert found.bytes == 128 * 256 + 256 * 64 + 2 * 128 * 64
    assert found.precision == "fp8"


def test_each_row_of_a_grouped_product_meets_one_matrix() -> None:
    found = cost("aten::_grouped_mm", [[4096, 512], [8, 512, 1024], [8]], [BF16, BF16, INT])
    assert found.flops == 2 * 4096 * 512 * 1024
    assert found.bytes == 2 * (4096 * 512 + 8 * 512 * 1024 + 4096 * 1024)


def test_the_gradient_of_grouped_weights_shares_the_rows_out() -> None:
    found = cost("aten::_grouped_mm", [[512, 4096], [4096, 1024], [8]], [BF16, BF16, INT])
    assert found.flops == 2 * 4096 * 512 * 1024
    assert found.bytes == 2 * (4096 * 512 + 4096 * 1024 + 8 * 512 * 1024)


def test_a_token_of_a_mixture_of_experts_meets_those_it_is_sent_to() -> None:
    dims = [[32, 2880], [128, 5760, 2880], [128, 2880, 2880], [32, 4]]
    found = cost("vllm::fused_experts", dims, [BF16, BF16, BF16, FP32])
    assert found.flops == 2 * 32 * 4 * (2880 * 5760 + 2880 * 2880)


def test_a_convolution_with_stride_padding_dilation_and_groups() -> None:
    dims = [[10, 64, 56, 56], [128, 32, 3, 3], [128], [], [], [], [], [], []]
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]
    found = cost("aten::convolution", dims, [BF16] * 3, values)
    out = 10 * 128 * 28 * 28
    assert found.flops == 2 * out * 32 * 9 + out
    assert found.bytes == 2 * (10 * 64 * 56 * 56 + 128 * 32 * 9 + 128 + out)


def test_a_convolution_without_its_stride_has_no_cost() -> None:
    dims = [[10, 64, 56, 56], [128, 64, 3, 3], [], [], [], [], [], [], []]
    assert cost("aten::convolution", dims, [BF16, BF16]) is None


def test_of_a_convolutions_backward_pass_only_what_was_asked_for_counts() -> None:
    dims = [[10, 512, 7, 7], [10, 256, 14, 14], [512, 256, 3, 3], *[[]] * 8]
    both = ["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    once = 2 * 10 * 7 * 7 * 512 * 256 * 9
    for mask, times in (("[True, True, False]", 2), ("[False, True, False]", 1)):
        found = cost("aten::convolution_backward", dims, [BF16] * 3, [*both, mask])
        assert found.flops == times * once


def test_a_causal_mask_halves_attention() -> None:
    dims = [[16, 16, 559, 64]] * 3 + [[]] * 4
    name = "aten::_scaled_dot_product_flash_attention"
    whole = cost(name, dims, [BF16] * 3, ["", "", "", "0.", "False", "False", "0.125"])
    half = cost(name, dims, [BF16] * 3, ["", "", "", "0.", "True", "False", "0.125"])
    assert whole.flops == 4 * 16 * 16 * 559 * 559 * 64
    assert half.flops == whole.flops // 2
    assert half.bytes == whole.bytes == 2 * 4 * 16 * 16 * 559 * 64


def test_attention_with_fewer_heads_of_keys_moves_less() -> None:
    dims = [[2, 1024, 32, 128], [2, 1024, 8, 128], [2, 1024, 8, 128]]
    found = cost("flash_attn::_flash_attn_forward", dims, [BF16] * 3)
    assert found.flops == 4 * 2 * 32 * 1024 * 1024 * 128
    assert found.bytes == 2 * 2 * 1024 * 128 * (32 + 8 + 8 + 32)


def test_the_backward_pass_of_attention_has_five_products() -> None:
    query = [2, 16, 512, 64]
    dims = [query, query, query, query, query, [2, 16, 512]]
    forward = cost("aten::_scaled_dot_product_flash_attention", [query] * 3, [BF16] * 3)
    found = cost("aten::_scaled_dot_product_flash_attention_backward", dims, [BF16] * 5)
    assert found.flops * 2 == forward.flops * 5


def test_sequences_of_unknown_lengths_have_no_cost() -> None:
    dims = [[4096, 32, 128]] * 3
    assert cost("flash_attn::_flash_attn_varlen_forward", dims, [BF16] * 3) is None


def test_a_layer_norm_reads_and_writes_its_tensor_once() -> None:
    dims = [[1, 141, 512], [], [512], [512], []]
    found = cost("aten::native_layer_norm", dims, [BF16, "ScalarList", BF16, BF16])
    assert found.bytes == 2 * (2 * 141 * 512 + 2 * 512)
    assert not found.on_matrix_units


def test_an_embedding_reads_the_rows_that_are_asked_for() -> None:
    dims = [[30522, 512], [1, 141]]
    found = cost("aten::embedding", dims, [BF16, "long int"])
    assert (found.flops, found.bytes) == (0, 2 * 141 * 512 * 2 + 141 * 8)


def test_what_is_added_is_broadcast() -> None:
    found = cost("aten::add", [[16, 559, 1024], [16, 1, 1024], []], [FP32, FP32, "Scalar"])
    assert found.flops == 16 * 559 * 1024
    assert found.bytes == 4 * (2 * 16 * 559 * 1024 + 16 * 1024)


def test_a_reduction_writes_what_is_left() -> None:
    over_one = cost(
        "aten::sum", [[1024, 96], [], [], []], [FP32, "ScalarList"], ["", "[0]", "True", ""]
    )
    over_all = cost("aten::sum", [[1024, 96]], [FP32])
    assert over_one.bytes == 4 * (1024 * 96 + 96)
    assert over_all.bytes == 4 * (1024 * 96 + 1)


@pytest.mark.parametrize(
    ("dims", "types", "values"),
    [
        ("", "", ""),
        ("[]", "[]", "[]"),
        ("[[", "[", "{"),
        ("null", "null", "null"),
        ("[[1e99,2],[2,3]]", '["float","float"]', ""),
        ("[[-5,2],[2,3]]", '["float","float"]', ""),
        ("[[9223372036854775807,4],[4,9223372036854775807]]", '["float","float"]', ""),
        ("[" * 100_000, "", ""),
        ('[["a"],["b"]]', '["float","float"]', ""),
    ],
)
def test_shapes_that_make_no_sense_have_no_cost(dims: str, types: str, values: str) -> None:
    assert cost_of("aten::mm", dims, types, values) is None
    for name in MODELS:
        found = cost_of(name, dims, types, values)
        assert found is None or 0 < found.bytes < 2**62


_SIZE = st.integers(0, 2**40)
_SHAPES = st.lists(st.lists(_SIZE | st.lists(_SIZE, max_size=3), max_size=6), max_size=12)
_WORDS = st.sampled_from(["", "True", "[1, 1]", "[0]", "1", "0", "[-1]", "-1", "[]", "x", "1e9"])


@given(
    st.sampled_from(sorted(MODELS)),
    _SHAPES,
    st.lists(st.sampled_from(["float", "c10::BFloat16", "Scalar", "ScalarList", "int", ""])),
    st.lists(_WORDS, max_size=12),
)
def test_no_shapes_make_a_model_fail(
    name: str, dims: list[Any], types: list[str], values: list[str]
) -> None:
    found = cost(name, dims, types, values)
    assert found is None or (found.flops >= 0 and found.bytes > 0)


def test_costs_are_those_that_pytorch_counts_itself(tmp_path: Path) -> None:
    """`FlopCounterMode` leaves biases out; everything else must be equal, operator by operator."""
    run = subprocess.run(
        [torch_python(), str(KINETO_JOB), str(tmp_path / "trace.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    counted = json.loads(run.stdout)
    ours: dict[str, int] = {}
    for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]:
        args = event.get("args", {})
        if event.get("cat") != "cpu_op" or "Input Dims" not in args:
            continue
        name = event["name"]
        found = cost(name, args["Input Dims"], args["Input type"], args["Concrete Inputs"])
        if found is not None and name in counted:
            ours[name] = ours.get(name, 0) + found.flops - _biases(name, args["Input Dims"])
    assert ours == counted
    assert len(counted) >= 6


def _biases(name: str, dims: list[Any]) -> int:
    if name in ("aten::addmm", "aten::baddbmm"):
        out: int = dims[1][-2] * dims[2][-1]
        return out * (dims[1][0] if name == "aten::baddbmm" else 1)
    return 0

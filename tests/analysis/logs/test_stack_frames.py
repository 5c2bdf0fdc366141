from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.logs.stack_frames import fold_stack

JAVA = """ERROR request failed
org.springframework.web.util.NestedServletException: Request processing failed
\tat org.springframework.web.servlet.FrameworkServlet.processRequest(FrameworkServlet.java:1014)
\tat com.shop.Api.pay(Api.java:10)
Caused by: java.lang.NullPointerException: card is null
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.pay.PayService.charge(PayService.java:45)
\t... 12 more"""
PYTHON = """Traceback (most recent call last):
  File "/usr/local/lib/python3.11/site-packages/flask/app.py", line 1463, in wsgi_app
    response = self.full_dispatch_request()
  File "/app/shop/pay.py", line 45, in charge
    json.loads(text)
  File "/usr/local/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1"""
GO = """panic: runtime error: index out of range [3] with length 3

goroutine 17 [running]:
main.(*server).PlaceOrder(0xc0001, {0x1, 0x2})
\t/src/checkout/main.go:233 +0x1a5
net/http.HandlerFunc.ServeHTTP(...)
\t/usr/local/go/src/net/http/server.go:2136"""
NODE = """TypeError: Cannot read properties of undefined (reading 'id')
    at Array.map (<anonymous>)
    at charge (/usr/src/app/charge.js:63:11)
    at Layer.handle (/usr/src/app/node_modules/express/lib/router/layer.js:95:5)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)"""
DOTNET = """System.InvalidOperationException: Sequence contains no elements
   at System.Linq.ThrowHelper.ThrowNoElementsException()
   at Cart.Store.RedisCartStore.AddItem(String id, Int32 n) in /app/src/RedisCartStore.cs:line 42"""
RUBY = """/app/lib/pay.rb:12:in `charge': undefined method `id' for nil (NoMethodError)
\tfrom /app/lib/pay.rb:12:in `charge'
\tfrom /usr/lib/ruby/gems/3.2.0/gems/rack-3.0/lib/rack.rb:5:in `call'"""
PHP = """PHP Fatal error:  Uncaught RuntimeException: no card in /var/www/app/Pay.php:12
Stack trace:
#0 /var/www/vendor/framework/Kernel.php(12): Framework->run()
#1 /var/www/app/Pay.php(33): Pay->charge(1)"""


@pytest.mark.parametrize(
    ("text", "error_class", "frame"),
    [
        (JAVA, "java.lang.NullPointerException", "PayService.java:45 PayService.charge"),
        (PYTHON, "json.decoder.JSONDecodeError", "app/shop/pay.py:45 charge"),
        (GO, "panic: runtime error", "src/checkout/main.go:233 main.(*server).PlaceOrder"),
        (NODE, "TypeError", "usr/src/app/charge.js:63 charge"),
        (
            DOTNET,
            "System.InvalidOperationException",
            "app/src/RedisCartStore.cs:42 Cart.Store.RedisCartStore.AddItem",
        ),
        (RUBY, "NoMethodError", "app/lib/pay.rb:12 charge"),
        (PHP, "RuntimeException", "var/www/app/Pay.php:33 Pay->charge"),
    ],
)
def test_a_stack_trace_is_folded_to_its_error_and_the_innermost_frame_of_own_code(
    text: str, error_class: str, frame: str
) -> None:
    folded = fold_stack(text)
    assert (folded.error_class, str(folded.frame)) == (error_class, frame)


def test_a_trace_without_own_code_keeps_its_innermost_frame() -> None:
    text = (
        "java.io.IOException: gone\n\tat java.net.Socket.read(Socket.java:9)\n\tat "
        "io.netty.Loop.run(Loop.java:3)"
    )
    assert str(fold_stack(text).frame) == "Socket.java:9 Socket.read"


def test_a_place_does_not_change_when_lines_above_it_do() -> None:
    moved = fold_stack(PYTHON.replace("line 45", "line 52"))
    assert moved.frame is not None
    assert moved.frame.place == "app/shop/pay.py charge"


def test_an_ordinary_line_has_neither() -> None:
    assert fold_stack("order 7 stored") == fold_stack("")


def test_a_deep_stack_is_read_in_part() -> None:
    deep = "Error: deep\n" + "    at loop (/app/loop.js:1:1)\n" * 100_000
    assert str(fold_stack(deep).frame) == "app/loop.js:1 loop"


@given(st.text(alphabet="\n\t at(){}:.#<>/\\\"'$aZ09", max_size=400))
def test_any_text_can_be_folded(text: str) -> None:
    fold_stack(text)

"""Stack traces folded to what names the code: the error's class and the innermost frame of the
application's own code.

Formats: Java and Kotlin (`Throwable.printStackTrace`), Python (`traceback`), Go (`runtime/debug`),
Node.js (V8's stack trace API), .NET (`Exception.ToString`), Ruby and PHP. A frame is own code
unless it lies under one of `FOREIGN`: the language's library, a framework, an installed package.
The root cause comes before what wraps it: in Java the last "Caused by", in Python the last block;
in both its innermost own frame is nearest to what failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

STACK_LIMIT = 20_000
"""Characters of one event that are read: deep stacks repeat themselves."""
MAX_FRAMES = 400
FOREIGN = {
    "java": (
        "java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.",
        "groovy.", "akka.",
        "org.springframework.", "org.apache.", "org.hibernate.", "org.eclipse.", "org.jboss.",
        "org.glassfish.",
        "io.netty.", "io.grpc.", "io.undertow.", "io.micrometer.", "io.opentelemetry.",
        "io.reactivex.", "io.vertx.",
        "io.micronaut.", "io.quarkus.", "reactor.", "rx.", "feign.", "okhttp3.", "okio.",
        "retrofit2.",
        "redis.clients.",
        "com.zaxxer.", "com.mysql.", "com.google.", "com.fasterxml.", "com.netflix.",
        "com.rabbitmq.", "com.mongodb.",
        "org.postgresql.", "org.mongodb.", "org.aspectj.", "ch.qos.", "org.slf4j.", "org.junit.",
        "net.bytebuddy.",
        "com.alibaba.druid.", "com.amazonaws.", "software.amazon.", "org.redisson.", "io.lettuce.",
        "org.mybatis.",
    ),
    "python": ("site-packages/", "dist-packages/", "/lib/python", "<frozen ", "<string>",
    "<stdin>"),
    "go": ("/usr/local/go/", "/go/pkg/mod/", "/vendor/", "/src/runtime/", "/libexec/src/",
    "/goroot/"),
    "node": ("node_modules/", "node:", "internal/", "<anonymous>", "native"),
    "dotnet": ("System.", "Microsoft.", "Npgsql.", "Grpc.", "Newtonsoft.", "MySql.",
    "StackExchange.", "Polly."),
    "ruby": ("/gems/", "/lib/ruby/", "<internal:"),
    "php": ("/vendor/", "[internal function]"),
}  # fmt: skip
"""Beginnings of packages (Java, .NET) and parts of paths (others) that hold no code of the
application."""
_JAVA = re.compile(
    r"^[ \t]*at "
    r"(?:[\w.@-]{0,80}/{1,2})?([\w$.<>]{1,300})\(([\w$-]{1,120}\.[A-Za-z]{1,10})(?::(\d{1,7}))?\)",
    re.M,
)
_DOTNET = re.compile(
    r"^[ \t]*at ([\w.`<>+\[\],$|]{1,300})\([^)\n]{0,300}\)(?: in ([^\n]{1,300}?):line "
    r"(\d{1,7}))?[ \t]*$",
    re.M,
)
_NODE = re.compile(
    r"^[ \t]*at (?:async )?(?:([^\n(]{1,200}?) \()?([^\s()]{1,300}?):(\d{1,7}):\d{1,7}\)?[ \t]*$",
    re.M,
)
_PYTHON = re.compile(
    r'^[ \t]*File "([^"\n]{1,300})", line (\d{1,7}), in ([^\n]{1,200}?)[ \t]*$', re.M
)
_GO = re.compile(r"^[ \t]+(\S{1,300}\.go):(\d{1,7})(?: \+0x[0-9a-f]+)?[ \t]*$")
_RUBY = re.compile(
    r"^[ \t]*(?:from )?(/?[\w./@+-]{1,300}\.rb):(\d{1,7}):in [`']([^'\n]{1,200})'", re.M
)
_PHP = re.compile(r"^#\d{1,4} (/[^\n(]{1,300})\((\d{1,7})\): ([^\n(]{1,200})\(", re.M)
_CAUSED = re.compile(r"^[ \t]*Caused by: ", re.M)
_NAMED = r"(?:Exception|Error|Failure|Fault|Throwable|Panic|Interrupt|Exit|Warning)"
_CLASS = re.compile(
    rf"(?<![\w.$])((?:[A-Za-z_$][\w$]{{0,60}}(?:\.|::)){{0,12}}(?:[A-Z][\w$]{{0,80}}{_NAMED}|Error"
    rf"|Exception))(?![\w$])"
)
_NAME = re.compile(r"[\w.$]{1,300}")
_PYTHON_LAST = re.compile(r"^([A-Za-z_][\w.]{0,200})(?::[ ].*|:?)$")
_GO_PANIC = re.compile(r"^(?:panic|fatal error): (runtime error|[^\n:]{1,80})", re.M)
_WRAPPERS = (
    "NestedServletException",
    "ServletException",
    "CompletionException",
    "ExecutionException",
    # Java's reflection and .NET wrap what a called method raised.
    "InvocationTargetException",
    "UndeclaredThrowableException",
    "AggregateException",
)
"""Classes that only carry another error (java.util.concurrent, java.lang.reflect, Spring's web
layer, .NET)."""


@dataclass(frozen=True)
class CodeFrame:
    """One place in code: `file`, `line` (0 where the trace does not say), `function` with what
    holds it."""

    file: str
    line: int
    function: str
    is_app_code: bool

    @property
    def place(self) -> str:
        """File and function without the line: it stays when lines above it are edited."""
        return f"{self.file} {self.function}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}" if self.line else self.place


@dataclass(frozen=True)
class FoldedStack:
    """What a stack trace says: the class of the error that came first, and the code frame."""

    error_class: str | None
    frame: CodeFrame | None


def fold_stack(text: str) -> FoldedStack:
    """Class and frame of one event's text; None for what it does not hold. Linear in its length."""
    shown = text[:STACK_LIMIT]
    return FoldedStack(error_class(shown), innermost(shown))


def innermost(text: str) -> CodeFrame | None:
    """The innermost frame of own code of the root cause; without own code the innermost frame."""
    frames = next((code_frames for read in _READERS if (code_frames := read(text))), [])
    return next((f for f in frames if f.is_app_code), frames[0] if frames else None)


def error_class(text: str) -> str | None:
    """The class of the root cause that a text or stack trace names,
    `java.lang.NullPointerException`, `ValueError`."""
    if panic := _GO_PANIC.search(text):
        return f"panic: {panic[1]}"
    head, *causes = _CAUSED.split(text)
    if causes and (match := _NAME.match(causes[-1])):
        return match[0].rstrip(".")
    # Only Python's traceback names the error behind its frames.
    if (at := head.rfind('\n  File "')) >= 0 and (last := _python_last(head[at:])):
        return last
    named: list[str] = _CLASS.findall(_before_frames(head))
    # Name a wrapper only where there is nothing else.
    plain = [name for name in named if not name.endswith(_WRAPPERS)]
    return (plain or named)[-1] if named else None


def _before_frames(text: str) -> str:
    at = min(
        (
            i
            for mark in ("\n\tat ", "\n    at ", "\n   at ", "\n  at ")
            if (i := text.find(mark)) >= 0
        ),
        default=-1,
    )
    return text[:at] if at >= 0 else text


def _python_last(text: str) -> str | None:
    """The name on the first unindented line after the frames."""
    for line in text.split("\n")[1:]:
        if line and not line[0].isspace():
            match = _PYTHON_LAST.match(line)
            return match[1] if match else None
    return None


def _java(text: str) -> list[CodeFrame]:
    """The frames of the last cause first, and of what wraps it after; each innermost first."""
    frames = []
    for part in reversed(_CAUSED.split(text)):
        for name, file, line in _limited(_JAVA, part):
            # Java frames name a class and a method; without a dot it is other text.
            if "." in name:
                frames.append(
                    CodeFrame(
                        file,
                        int(line or 0),
                        ".".join(name.split(".")[-2:]),
                        _is_app_code("java", name),
                    )
                )
    return frames


def _dotnet(text: str) -> list[CodeFrame]:
    return [
        CodeFrame(
            _short(file) if file else name.rsplit(".", 1)[0],
            int(line or 0),
            name,
            not name.startswith(FOREIGN["dotnet"]),
        )
        for name, file, line in _limited(_DOTNET, text)
        if "." in name
    ]


def _node(text: str) -> list[CodeFrame]:
    return [
        CodeFrame(
            _short(file.removeprefix("file://")),
            int(line),
            name or "<anonymous>",
            _is_app_code("node", file),
        )
        for name, file, line in _limited(_NODE, text)
    ]


def _python(text: str) -> list[CodeFrame]:
    """The last block's frames, innermost first; then those of the blocks before."""
    code_frames = [
        CodeFrame(_short(f), int(n), name, _is_app_code("python", f))
        for f, n, name in _limited(_PYTHON, text)
    ]
    return code_frames[::-1]


def _go(text: str) -> list[CodeFrame]:
    """A line with the function, then one with the file. What runs after the panic is the runtime's
    own."""
    # After a panic, the frames before this one are those of the runtime.
    lines = text[max(text.rfind("panic({"), 0) :].split("\n")
    frames: list[CodeFrame] = []
    for function, place in pairwise(lines):
        if (match := _GO.match(place)) and len(frames) < MAX_FRAMES:
            # The arguments are addresses, and the path before the last slash is the module.
            name = function.strip().rsplit("(", 1)[0].rsplit("/", 1)[-1][:200]
            frames.append(
                CodeFrame(_short(match[1]), int(match[2]), name, _is_app_code("go", match[1]))
            )
    return frames


def _ruby(text: str) -> list[CodeFrame]:
    return [
        CodeFrame(_short(f), int(n), name, _is_app_code("ruby", f))
        for f, n, name in _limited(_RUBY, text)
    ]


def _php(text: str) -> list[CodeFrame]:
    return [
        CodeFrame(_short(f), int(n), name, _is_app_code("php", f))
        for f, n, name in _limited(_PHP, text)
    ]


_READERS = (_python, _go, _node, _java, _dotnet, _ruby, _php)
"""A Node.js frame ends in line and column, so that it is none of Java's."""


def _limited(pattern: re.Pattern[str], text: str) -> list[tuple[str, str, str]]:
    groups = []
    for match in pattern.finditer(text):
        first, second, third = match.groups()
        groups.append((first or "", second or "", third or ""))
        if len(groups) == MAX_FRAMES:
            break
    return groups


def _is_app_code(language: str, name: str) -> bool:
    if language in ("java", "dotnet"):
        return not name.startswith(FOREIGN[language])
    # Windows writes its paths with backslashes.
    low = name.replace("\\", "/")
    return not any(part in low for part in FOREIGN[language])


def _short(path: str) -> str:
    """The path without what a container puts before it: its last four parts match the repository's
    paths."""
    return "/".join(path.replace("\\", "/").strip("/").split("/")[-4:])

"""Secrets that no name stands beside: arguments of commands, lines of protocols, places in calls.

Each row: what a text must hold, in small letters, for the pattern to be tried, and the pattern,
whose group that matched is the secret. Every quantifier is bounded.
"""

from __future__ import annotations

import re

_ARGUMENT = r"[\"']?([^\s\"'$\-][^\s\"']{0,128})"
_UP_TO = r"\b[^\r\n|]{0,200}?\s"
_USER = r"[^\s:\"'$]{1,128}:"
_CURL = rf"(?i:\bcurl{_UP_TO}(?:-u|--user|-U|--proxy-user)[\s=]{{0,3}})"

_ROWS = (
    (
        ("curl",),
        _CURL + rf"\"{_USER}([^\"$]{{1,256}})\"",
    ),
    (
        ("curl",),
        _CURL + rf"'{_USER}([^'$]{{1,256}})'",
    ),
    (
        ("curl",),
        _CURL + rf"{_USER}([^\s\"'$]{{1,256}})",
    ),
    # not the numbers of a user and a group
    (("-user",), rf"(?i:\s--(?:proxy-)?user[\s=]{{1,3}})[\"']?(?!\d+:){_USER}([^\s\"'$]{{3,256}})"),
    # HTTPie and its kin
    (
        (" -a ", "--auth"),
        rf"\b(?:https?|xhs?){_UP_TO}(?:-a|--auth)[\s=]{{1,3}}[\"']?{_USER}([^\s\"'$]{{1,256}})",
    ),
    (
        ("mysql", "mariadb", "sshpass"),
        rf"\b(?:mysql|mariadb|sshpass)\w{{0,12}}{_UP_TO}-p{_ARGUMENT}",
    ),
    (
        ("sshpass", "login", "mongo"),
        rf"\b(?:sshpass|(?:docker|podman|nerdctl) login|mongo\w{{0,8}}){_UP_TO}-p[\s=]{_ARGUMENT}",
    ),
    (
        ("rabbitmqctl",),
        rf"\brabbitmqctl{_UP_TO}(?:add_user|change_password|authenticate_user)\s\S{{1,80}}\s{_ARGUMENT}",
    ),
    (
        ("htpasswd",),
        rf"\bhtpasswd{_UP_TO}-\w{{0,4}}b\w{{0,4}}\s\S{{1,160}}\s\S{{1,80}}\s{_ARGUMENT}(?m:$)",
    ),
    (("zip ",), rf"\b(?:un)?zip{_UP_TO}-P\s?{_ARGUMENT}"),
    (("snmp",), rf"\bsnmp\w{{2,10}}{_UP_TO}-(?:c|A|X)\s{_ARGUMENT}"),
    # given on standard input
    (
        ("| sudo -", "|sudo -", "--password-stdin"),
        r"\becho\s(?:-n\s)?[\"']?([^\s\"'$|]{3,128})[\"']?\s?\|"
        r"\s?(?:sudo -\w{0,4}S|[^\r\n|]{1,120}--password-stdin)",
    ),
    (("kinit",), rf"\bkinit{_UP_TO}<<<\s?{_ARGUMENT}"),
    (("redis-cli",), rf"\bredis-cli{_UP_TO}-a\s{_ARGUMENT}"),
    (("ldap",), rf"\bldap\w{{3,10}}{_UP_TO}-w\s{_ARGUMENT}"),
    (("openssl",), rf"\bopenssl{_UP_TO}-k\s{_ARGUMENT}"),
    (("pass:",), r"-pass(?:in|out)?[ =]pass:([^\s\"',]{3,128})"),
    (("smbclient",), rf"\bsmbclient{_UP_TO}-U\s[\"']?[^\s%\"']{{1,80}}%([^\s\"']{{1,128}})"),
    (("net use",), r"\bnet use\b[^\r\n|]{0,200}?/user:\S{1,80}\s([^\s\"'/]{3,128})"),
    # FTP and POP3, Redis, IMAP, IRC
    (("pass ",), r"(?m:^)PASS ([^\s:]{3,128})(?m:$)"),
    (
        ("auth",),
        r"(?<![\w\"])\"?AUTH\"?\s(?:[\w\-]{1,32} )?\"?(?!PLAIN|LOGIN|CRAM)(?=[^\s\"]{0,64}[A-Z\d])"
        r"(?=[^\s\"]{0,64}[a-z])([^\s\":,()]{6,128})\"?(?m:$)",
    ),
    ((" login ",), r"\b\w{1,8} LOGIN \S{1,192} ([^\s\"]{3,128})(?m:$)"),
    (("identify ",), r"\bIDENTIFY (\S{4,128})"),
    (("digest ",), r"(?i:\bDigest [^\r\n]{0,400}?\bresponse=\")([0-9a-f]{32,64})"),
    # calls that take a secret in its place
    (("pgp_sym_",), r"(?i:\bpgp_sym_(?:de|en)crypt\([^()'\"]{1,80},\s{0,3}')([^'\r\n]{3,256})"),
    (("securestring",), r"(?i:\bConvertTo-SecureString(?: -String)? [\"'])([^\"'\r\n]{3,256})"),
    (
        ("credential", "passwordauth", "basicauth"),
        r"(?i:\b(?:NetworkCredential|PSCredential|UsernamePasswordCredential\w{0,4}"
        r"|PasswordAuthentication|(?:HTTP)?BasicAuth)\(\s{0,3}[\"'][^\"'\r\n]{1,128}[\"']\s{0,3},"
        r"\s{0,3}[\"'])([^\"'\r\n]{3,256})",
    ),
    # a column of the last place of an INSERT, and of a file of values
    (
        ("values",),
        r"(?i:\(\s{0,3}(?:[\w\"`]{1,40},\s{0,3}){1,8}[\"`]?(?:password|passwd|secret|token)[\"`]?"
        r"\s{0,3}\)\s{0,3}VALUES\s{0,3}\((?:[^()',]{1,80},|'[^'\r\n]{0,80}',\s{0,3}){1,8}\s{0,3}')"
        r"([^'\r\n]{3,256})",
    ),
    (
        ("password\n", "password\r"),
        r"(?i:(?m:^)[\w ,]{0,80}\bpassword\r?\n(?:[^,\r\n]{1,80},){1,8})([^,\r\n]{3,128})(?m:$)",
    ),
    (("private-lines",), r"(?m:^)Private-Lines: \d{1,3}\r?\n([A-Za-z0-9+/=\s]{16,8192})"),
    # the private part of a JSON web key
    (
        ('"kty"',),
        r"(?i:\"kty\"\s{0,3}:\s{0,3}\"(?:oct|rsa|ec|okp)\"[^{}]{0,4096}?\"[dk]\"\s{0,3}:\s{0,3}\")"
        r"([\w\-]{16,2048})",
    ),
    (("value ",), r"(?i:\bsecret \"[\w\-]{1,80}\" value )([^\s\"']{8,512})"),
)

COMMANDS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (hints, re.compile(pattern)) for hints, pattern in _ROWS
)

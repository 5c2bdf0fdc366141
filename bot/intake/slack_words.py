"""The words by which alerts in Slack say that something fires, ended or was taken on, in the usual
languages; and the phrases of what bots post besides.

Every pattern is a list of literal words, matched against lines that are cut short before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

StateName = Literal["firing", "resolved", "acknowledged"]

# By language: English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Nordic,
# Russian, Japanese, Chinese, Korean.
FIRING = """
firing|triggered|re-triggered|retriggered|alerting|alarm|outage|offline|unreachable|unavailable
unhealthy|degraded|not responding|not healthy|not ok|no data|nodata|not reporting|needs attention
went down|is down|are down|was down|now down|gone down|goes down|currently down|still down
marked down|has failed|is failing|keeps failing|is critical|is active|is activated|new incident
new alert|alert created|incident created|incident opened|incident started|incident declared
problem opened|problem detected|anomaly detected|breached|threshold crossed|threshold violated
violated|is firing|crash looping|crashlooping|new error|new exception|error occurred|reactivated
did not arrive|stopped responding|in alarm|alert fired|has been triggered
entered state failed|entered state crashed
ausgefallen|ausfall|störung|kritisch|nicht erreichbar|nicht verfügbar|ausgelöst
en panne|panne|hors ligne|indisponible|injoignable|déclenchée|déclenché|critique
caído|caída|fuera de servicio|no disponible|disparada|activada|alarma|inaccesible
caiu|fora do ar|indisponível|disparado|disparou|alarme
non raggiungibile|non disponibile|guasto|allarme|scattato
storing|onbereikbaar|uitval|niet bereikbaar
awaria|niedostępny|niedostępna|niedostępne
nere|nede|larm|driftstopp
авария|недоступен|недоступна|сработал|сработала
障害|異常|停止|ダウン|アラート発生|アラートが発生|到達不能
告警|故障|宕机|不可用|触发|報警|报警|离线|异常
장애|심각|다운
"""
DOWN = "DOWN|CRITICAL|ALARM|PROBLEM|UNREACHABLE|FIRING|FAILING"
"""States that monitors write in capitals, and that are ordinary words otherwise."""
FAULTS = """
error|errors|failed|failure|failures|failing|fails|critical|fatal|problem|warning|warn|exceeded
exceeds|above|below|high|slow|latency|timeout|timeouts|timed out|spike|anomaly|exception|crash
crashed|unhandled|alert|incident|exhausted|saturated|saturation|expired|expiring|expires
stuck|missing|refused|denied|down|too many|too high|too low|full|dropped|evicted|oomkilled
5xx|p95|p99|error rate|violation|threshold
fehler|fehlgeschlagen|warnung|zu hoch|erreur|échec|alerte|avertissement|problème
fallo|alerta|crítico|crítica|problema|falha|erro|errore|critico|fout|mislukt|kritiek|probleem
błąd|krytyczny|krytyczna|kritisk|ошибка|критично|проблема
警告|エラー|重大|发生错误|错误|严重|경고|오류
"""
RESOLVED = """
resolved|recovered|recovery|recovers|has recovered|closed|cleared|clear|restored|auto-resolved
autoresolved|is up|are up|back up|up again|went up|now up|came up|back online|is online
back to normal|is normal|is healthy|healthy again|is ok|now ok|is over|has ended|ended
operational again|is operational|no longer|returned to normal|is fixed|is reachable|reachable again
is closed|is resolved|fully operational
behoben|wiederhergestellt|wieder erreichbar|wieder verfügbar|wieder online|gelöst|entwarnung
résolu|résolue|rétabli|rétablie|de nouveau en ligne|de nouveau disponible|retour à la normale
clôturé|clôturée
resuelto|resuelta|recuperado|recuperada|restablecido|restablecida|solucionado|normalizado
resolvido|resolvida|restabelecido|voltou ao normal|encerrado
risolto|risolta|ripristinato|ripristinata|rientrato|rientrata
opgelost|hersteld|weer online|weer bereikbaar
rozwiązany|rozwiązana|rozwiązane|przywrócono|przywrócony|naprawiono
åtgärdad|løst|återställd|восстановлен|восстановлена|решено|решена|устранена
復旧|解決|回復|解消|正常
恢复|恢復|已解决|解决|已关闭
복구|해결|정상
"""
UP = "OK|UP|RECOVERY|NORMAL|CLOSED|CLEAR"
ACKNOWLEDGED = """
acknowledged|acknowledges|acknowledgement|ack'd|acked|acknowledge|snoozed|silenced|muted|escalated
reassigned|assigned to|note added|added a note|commented|priority changed|is being investigated
quittiert|bestätigt|wird bearbeitet|acquitté|acquittée|pris en charge|reconocido|reconocida
reconhecido|reconhecida|preso in carico|presa in carico|bevestigd|potwierdzony|potwierdzone
確認済み|対応中|已确认|确认|처리중
"""
# What the field for the state, or a word before a colon, may say besides.
FIRING_VALUES = """
down|critical|problem|open|opened|active|activated|created|new|failing|bad|breach|ongoing|error
warning|warn|major|minor|high|unknown|alert|fired|started|crit|fatal|emergency|disaster|degraded
insufficient_data|insufficient data|major_outage|partial_outage|investigating|identified|monitoring
offen|aktiv|problème|alerte|alerta|problema|abierto|abierta|crítico|crítica|critico|aberto|aperto
kritiek|probleem|problem|krytyczny|kritisch|kritisk|критично|проблема
警告|重大|エラー|アラート|発生|严重|警告|问题
"""
WEAK_VALUES = frozenset(
    [
        "error",
        "warning",
        "warn",
        "failed",
        "failure",
        "alert",
        "new",
        "high",
        "major",
        "minor",
        "unknown",
        "open",
        "active",
        "created",
        "started",
        "investigating",
        "identified",
        "monitoring",
    ]
)
"""Values that other messages use as well: they count for less."""
RESOLVED_VALUES = """
ok|up|normal|closed|close|clear|green|good|healthy|passing|inactive|fixed|recover|end|ended|online
operational|info_resolved|geschlossen|gut|fermé|cerrado|fechado|chiuso|gesloten|zamknięty|正常|关闭
"""
FAILED_VALUES = "failed|failure"

GENERIC_WORDS = frozenset(
    [
        "alert",
        "alerts",
        "alarm",
        "issue",
        "incident",
        "incidents",
        "monitor",
        "monitoring",
        "notification",
        "notifications",
        "new",
        "is",
        "are",
        "has",
        "have",
        "been",
        "was",
        "a",
        "an",
        "the",
        "for",
        "of",
        "in",
        "on",
        "at",
        "via",
        "from",
        "to",
        "your",
        "this",
        "that",
        "with",
        "active",
        "created",
        "triggered",
        "fired",
        "priority",
        "severity",
        "status",
        "state",
        "update",
        "event",
        "details",
        "detected",
        "check",
        "service",
        "host",
        "problem",
        "high",
        "low",
        "medium",
        "critical",
        "major",
        "minor",
        "warning",
        "error",
        "info",
        "p1",
        "p2",
        "p3",
        "p4",
        "p5",
        "opened",
        "declared",
        "reported",
        "started",
        "cloudwatch",
        "prometheus",
        "grafana",
        "kubernetes",
        "system",
        "message",
        "und",
        "der",
        "die",
        "das",
        "ein",
        "eine",
        "nouvelle",
        "nueva",
        "nuevo",
        "novo",
        "nova",
        "nuovo",
    ]
)
"""Words that do not say what is alerting."""

FIRING_EMOJI = frozenset(
    [
        "fire",
        "rotating_light",
        "red_circle",
        "x",
        "warning",
        "bangbang",
        "exclamation",
        "heavy_exclamation_mark",
        "no_entry",
        "octagonal_sign",
        "stop_sign",
        "boom",
        "bomb",
        "siren",
        "large_red_square",
        "red_square",
        "sos",
        "skull",
        "arrow_down",
        "small_red_triangle_down",
        "broken_heart",
        "large_orange_circle",
        "alert",
    ]
)
RESOLVED_EMOJI = frozenset(
    [
        "white_check_mark",
        "large_green_circle",
        "green_circle",
        "heavy_check_mark",
        "green_heart",
        "arrow_up",
        "large_green_square",
        "ballot_box_with_check",
        "beer",
        "green_check",
        "ok",
        "tada",
    ]
)
_EMOJI_SIGNS: dict[str, Literal["firing", "resolved"]] = {
    **dict.fromkeys("🔥🚨🔴❌⚠‼❗⛔🛑💥💣🟥🆘💔🟠🔻", "firing"),
    **dict.fromkeys("✅🟢✔💚🟩☑", "resolved"),
}
_EMOJI = re.compile(r":([a-z0-9_+'-]{1,40}):|([" + "".join(_EMOJI_SIGNS) + "])")

# What bots post besides alerts: the reason, and the phrases that show it in a headline.
OTHER_MESSAGES: dict[str, str] = {
    "a test message": """
test notification|test message|test alert|this is a test|testing the integration|test webhook
integration has been added|has been added to this channel|added an integration to this channel
successfully configured|integration is configured|integration was added|connected to this channel
""",
    "a report or digest": """
daily report|weekly report|monthly report|daily summary|weekly summary|monthly summary
daily digest|weekly digest|monthly digest|hourly digest|digest|uptime report|status report
weekly update|summary for|summary of|report for|recap|newsletter|what's new|changelog
release notes|your week|last 7 days|last 24 hours|past week|cost report|budget report
wochenbericht|tagesbericht|rapport hebdomadaire|rapport quotidien|informe semanal|informe diario
relatório semanal|relatório diário|週報|日報|周报|日报
""",
    "a reminder or an appointment": """
reminder|starts in|starting soon|starting in|begins in|meeting|calendar|standup|stand-up|retro
retrospective|invitation|invited|happy birthday|anniversary|out of office|on vacation|holiday
is now on call|now on-call|is on call|is on-call|on-call shift|on call shift|on-call rotation
on-call handoff|on-call handover|shift starts|shift ends|erinnerung|rappel|recordatorio|lembrete
promemoria|herinnering|przypomnienie|リマインダー|提醒|会议
""",
    "a poll or survey": """
poll|survey|vote|votes|how are you|how do you feel|questionnaire|feedback form|umfrage|sondage
encuesta|enquete|sondaggio|ankieta|投票|アンケート
""",
    "planned maintenance": """
scheduled maintenance|planned maintenance|maintenance window|maintenance scheduled
maintenance has started|maintenance is complete|maintenance completed|under maintenance
downtimestart|downtimeend|downtimeremoved|down for maintenance|wartungsfenster|wartungsarbeiten
maintenance planifiée|mantenimiento programado|manutenção programada|計画メンテナンス|计划维护
""",
    "a finding in code or dependencies": """
vulnerability|vulnerabilities|dependency update|dependencies|security advisory|dependabot|renovate
code scanning|secret scanning
""",
}
DELIVERY = """
build failed|build passed|build succeeded|build broken|build fixed|build started|build finished
build is|build has|builds failed|pipeline failed|pipeline passed|pipeline succeeded
pipeline has failed|pipeline has passed|workflow run|workflow failed|tests failed|tests passed
test failed|test run|test suite|pull request|merge request|commit|commits|committed|deployed
deploying|deploys|deploy started|deploy finished|deploy succeeded|deploy failed|deploy live
deploy of|deploy to|deployment of|deployment to|deployment started|deployment finished
deployment succeeded|deployment failed|deployment completed|deployment complete|rolled out
rolling out|rolled back|rollout of|released|new release|is now running new version
sync succeeded|sync failed|sync status|sync is|synced|syncing|merged|pushed|back to normal after
rebuilt|job failed in|job passed in|failed on main|failed on master|passed on main|shipped
promoted|terraform plan|terraform apply|plan finished|run finished|run errored|run needs
still failing after|fixed after|success after|failure after|opened by|closed by pull
veröffentlicht|ausgerollt|déployé|déploiement|desplegado|despliegue|implantado|distribuito
デプロイ|リリース|ビルド|部署|构建|发布
"""
DELIVERY_KEYS = frozenset(
    {
        *[
            "repository",
            "repo",
            "branch",
            "commit",
            "revision",
            "author",
            "committer",
            "pipeline",
            "build",
            "workflow",
        ],
        *("sync status", "triggered by", "started by", "pull request", "build number"),
    }
)
DELIVERY_PATHS = (
    "/pipelines/",
    "/pull/",
    "/pull-requests/",
    "/merge_requests/",
    "/actions/runs/",
    "/commit/",
    "/commits/",
    "/-/jobs/",
    "/builds/",
    "/build/",
    "/workflows/",
    "/job/",
    "/deployments/",
    "/deploys/",
    "/releases/",
    "/compare/",
    "/buildconfiguration/",
)
_GREETINGS = """
hi|hello|hey|good morning|good evening|good afternoon|thanks|thank you|welcome|congrats
congratulations|lol|haha|sorry|cheers|kudos|let's|let us|i'm|i am|i'll|i'd|i've|i think|i can
we're|we'll|please|does anyone|anyone|did you know|here's|hallo|guten morgen|bonjour|hola|ciao|olá
"""
MONITORED = """
monitor|check|host|hostname|site|website|server|service|endpoint|probe|cluster|node|instance|url
api|database|pod|container|http|https|tcp|ping|dns|status code|response time|timeout|cpu|memory
disk|latency|error rate|uptime|queue|host|dienst|serveur|servidor|servizio|サーバー|サーバ|サービス
服务器|服务|主机|서버|서비스
"""


def pattern_of(words: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Any of the words or phrases of a table. Chinese, Japanese and Korean have no spaces, so there
    a word may stand inside a longer one."""
    literals = sorted({word for line in words.splitlines() for word in line.split("|")}, key=len)
    literals = [word for word in reversed(literals) if word]
    joined = "|".join(re.escape(word) for word in literals if _has_spaces(word))
    apart = "|".join(re.escape(word) for word in literals if not _has_spaces(word))
    bounded = rf"(?<![\w-])(?:{joined})(?![\w-])"
    return re.compile(f"{bounded}|(?:{apart})" if apart else bounded, flags)


def _has_spaces(word: str) -> bool:
    return all(character < "\u3000" for character in word)


_FIRING, _DOWN = pattern_of(FIRING), pattern_of(DOWN, re.NOFLAG)
_RESOLVED, _UP = pattern_of(RESOLVED), pattern_of(UP, re.NOFLAG)
_ACKNOWLEDGED = pattern_of(ACKNOWLEDGED)
FAULT = pattern_of(FAULTS)
DELIVERED = pattern_of(DELIVERY)
GREETING = pattern_of(_GREETINGS)
MONITORED_THING = pattern_of(MONITORED)
OTHER = {reason: pattern_of(words) for reason, words in OTHER_MESSAGES.items()}
_VALUES: dict[str, StateName] = {}
for _name, _words in (
    ("firing", FIRING + FIRING_VALUES + FAILED_VALUES),
    ("resolved", RESOLVED + RESOLVED_VALUES),
    ("acknowledged", ACKNOWLEDGED),
):
    for _line in _words.splitlines():
        for _word in filter(None, _line.split("|")):
            _VALUES.setdefault(_word, _name)  # type: ignore[arg-type]
_NEGATION = re.compile(
    r"(?:\bnot|n't|\bnever|\bnicht|\bpas|\bnon|\bniet|\bnie|\bnão) (?:yet )?$", re.IGNORECASE
)
_ARROW = re.compile(r"[\s\W]*(?:->|→|=>|➜|➔|»|\bto\b|\bnach\b|\bà\b|\ba\b)[\s\W]*", re.IGNORECASE)


def state_value(text: str) -> StateName | None:
    """The state that a field's value, or the words before a colon, are; None where they are more
    or something else."""
    return _VALUES.get(" ".join(text.casefold().split()))


def state_in(line: str) -> StateName | None:
    """The state that a line says of something. An end counts before a beginning ("problem
    resolved"), and the later of two states with an arrow between them ("OK -> ALARM")."""
    matches: list[tuple[int, int, StateName]] = []
    for state, patterns in (
        ("firing", (_FIRING, _DOWN)),
        ("resolved", (_RESOLVED, _UP)),
        ("acknowledged", (_ACKNOWLEDGED,)),
    ):
        for pattern in patterns:
            for match in pattern.finditer(line):
                matches.append((match.start(), match.end(), state))  # type: ignore[arg-type]
    matches.sort()
    states: list[StateName] = []
    for number, (start, end, state) in enumerate(matches):
        after = matches[number + 1][0] if number + 1 < len(matches) else end
        if after > end and _ARROW.fullmatch(line[end:after][:20]):
            continue
        is_negated = state == "resolved" and _NEGATION.search(line[max(0, start - 12) : start])
        states.append("firing" if is_negated else state)
    for state in ("resolved", "acknowledged", "firing"):
        if state in states:
            return state
    return None


def emoji_state(lines: Iterable[str]) -> Literal["firing", "resolved"] | None:
    """The state that the first emoji with a meaning shows."""
    for line in lines:
        for match in _EMOJI.finditer(line):
            name = match[1]
            if name in FIRING_EMOJI or (name and name.startswith("alert-")):
                return "firing"
            if name in RESOLVED_EMOJI:
                return "resolved"
            if match[2]:
                return _EMOJI_SIGNS[match[2]]
    return None

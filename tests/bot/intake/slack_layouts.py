"""Messages as monitoring tools and other bots post them in Slack, each with what is right.

Names, numbers and texts are invented; the layout follows the source that each names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Layout:
    """A message and what is right. `status` None: it starts nothing and ends nothing."""

    name: str
    source: str
    message: dict[str, Any]
    status: str | None = None
    service: str | None = None
    title: str = ""
    severity: str | None = None


def box(title: str = "", color: str = "", **more: Any) -> dict[str, Any]:
    fields = [{"title": key, "value": value} for key, value in more.pop("fields", {}).items()]
    content = {"title": title, "color": color, "fields": fields, **more}
    return {"attachments": [{key: value for key, value in content.items() if value}]}


def section(text: str, *fields: str) -> dict[str, Any]:
    parts: dict[str, Any] = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    if fields:
        parts["fields"] = [{"type": "mrkdwn", "text": field} for field in fields]
    return parts


def header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": {"type": "plain_text", "text": text}}


def button(text: str, url: str) -> dict[str, Any]:
    label = {"type": "plain_text", "text": text}
    return {"type": "actions", "elements": [{"type": "button", "text": label, "url": url}]}


def context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def blocks(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"blocks": list(parts)}


def colored(color: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"attachments": [{"color": color, "blocks": list(parts)}]}


SHOP = "https://shop.example.com/checkout"

LAYOUTS = (
    Layout(
        "Opsgenie, created",
        "Opsgenie's Slack integration, as its support pages show it",
        {"text": "New alert created via Prometheus"}
        | box(
            "#1433: Checkout error rate is high",
            "F4B400",
            title_link="https://opsg.in/a/i/acme/abc-123",
            fields={"Priority": "P2", "Tags": "service:checkout"},
        ),
        "firing",
        "checkout",
        "Checkout error rate is high",
        "p2",
    ),
    Layout(
        "Opsgenie, closed",
        "Opsgenie's Slack integration, as its support pages show it",
        {"text": "Alert closed by ann@example.com"}
        | box(
            "#1433: Checkout error rate is high",
            "5CB85C",
            title_link="https://opsg.in/a/i/acme/abc-123",
            fields={"Priority": "P2"},
        ),
        "resolved",
        "checkout",
    ),
    Layout(
        "New Relic, attachment",
        "New Relic documentation: legacy Slack notification channel",
        box(
            "Incident #3421 opened: Error percentage > 5 % for at least 5 minutes",
            "danger",
            title_link="https://alerts.newrelic.com/accounts/1/incidents/3421",
            fields={
                "Policy": "Shop",
                "Condition": "Error percentage (High)",
                "Targets": "checkout",
                "Severity": "CRITICAL",
            },
        ),
        "firing",
        "checkout",
        "Error percentage",
        "critical",
    ),
    Layout(
        "New Relic, blocks, closed",
        "New Relic documentation: Slack destination of workflows",
        blocks(
            section(
                ":white_check_mark: *Critical priority issue is closed*\n"
                "*<https://radar-api.service.newrelic.com/accounts/1/issues/0ea|checkout query "
                "result is &gt; 5.0 on 'Error rate'>*"
            )
        ),
        "resolved",
        "checkout",
        "checkout query result is > 5.0",
    ),
    Layout(
        "UptimeRobot, up",
        "UptimeRobot's Slack integration, public screenshots",
        {"text": f"Monitor is UP: checkout ( {SHOP} ). It was down for 3 minutes and 5 seconds."},
        "resolved",
        "checkout",
    ),
    Layout(
        "Pingdom, up",
        "Pingdom's Slack integration, public screenshots",
        box("shop.example.com is UP", "good", text="Incident duration: 4 min"),
        "resolved",
    ),
    Layout(
        "Better Stack, resolved",
        "Better Stack documentation: Slack integration",
        colored(
            "#2EB67D",
            section(
                "*Incident resolved* for <https://uptime.betterstack.com/i/monitors/2|checkout>"
            ),
        ),
        "resolved",
        "checkout",
    ),
    Layout(
        "Robusta, crash loop",
        "github.com/robusta-dev/robusta docs/configuration/sinks/slack.rst",
        blocks(
            section(
                "🔥 *Prometheus Alert Firing* 🔴 High\n*Crash looping pod checkout-7c9f-x2x1z*"
            ),
            section("*Source:* `prod-eu/shop/checkout-7c9f-x2x1z`"),
            button("Investigate 🔎", "https://platform.robusta.dev/alerts/7d1c"),
        ),
        "firing",
        "checkout",
        "Crash looping pod",
        "high",
    ),
    Layout(
        "incident.io, resolved",
        "incident.io help: announcement posts",
        blocks(
            header("✅ INC-42 Checkout errors"),
            section("*Status:* Resolved\n*Severity:* Major\n*Lead:* Ann"),
            button("Homepage", "https://app.incident.io/acme/incidents/42"),
        ),
        "resolved",
        "checkout",
        "Checkout errors",
        "major",
    ),
    Layout(
        "healthchecks.io, down",
        "github.com/healthchecks/healthchecks templates/integrations/slack_message.json",
        box(
            "“nightly-billing” is DOWN.",
            "danger",
            title_link="https://healthchecks.io/checks/8a2f/details/",
            fallback='The check "nightly-billing" is DOWN.',
            fields={"Project": "Shop", "Period": "1 day", "Last Ping": "Success, a day ago"},
        ),
        "firing",
        "nightly-billing",
        "nightly-billing",
    ),
    Layout(
        "StatusCake, up",
        "StatusCake's Slack integration, public screenshots",
        {"text": "Website | Your site 'checkout' went back up @ 2026-11-28 13:45:02. HTTP 200"},
        "resolved",
        "checkout",
    ),
    Layout(
        "Grafana, legacy",
        "github.com/grafana/grafana pkg/services/alerting/notifiers/slack.go (v7)",
        box(
            "[Alerting] Checkout latency alert",
            "#D63232",
            title_link="https://grafana.example/d/abc/shop?viewPanel=2",
            text="p99 above 2 s",
            footer="Grafana v7.5.2",
            fields={"checkout": "2.71"},
        ),
        "firing",
        "checkout",
        "Checkout latency alert",
    ),
    Layout(
        "Grafana, unified, resolved",
        "github.com/grafana/alerting templates/default_template.go",
        box(
            "[RESOLVED] HighLatency shop (checkout critical)",
            "#36a64f",
            title_link="https://grafana.example/alerting/list",
            text="**Resolved**\n\nValue: A=0.3\nLabels:\n - alertname = HighLatency\n"
            " - service = checkout\n",
            footer="Grafana v11.2.0",
        ),
        "resolved",
        "checkout",
        "HighLatency",
    ),
    Layout(
        "Alertmanager, default",
        "github.com/prometheus/alertmanager template/default.tmpl",
        box(
            "[FIRING:2] HighErrorRate (checkout prod critical)",
            "danger",
            title_link="http://alertmanager.example/#/alerts?receiver=slack",
            fallback="[FIRING:2] HighErrorRate (checkout prod critical) | http://alertmanager.example",
        ),
        "firing",
        "checkout",
        "HighErrorRate",
        "critical",
    ),
    Layout(
        "Alertmanager, template with details",
        "github.com/shelleg/prometheus-stack docs/am/am-template.md",
        box(
            "[FIRING:1] Monitoring Event Notification",
            "danger",
            text="*Alert:* Checkout answers slowly - `warning`\n *Description:* p99 is 3 s\n"
            " *Details:*\n • *alertname:* `SlowCheckout`\n • *service:* `checkout`\n"
            " • *severity:* `warning`\n",
        ),
        "firing",
        "checkout",
        "Checkout answers slowly",
        "warning",
    ),
    Layout(
        "Alertmanager, summary as text",
        "github.com/kalisio/kargo configs/prometheus/alertmanager.yml.tpl",
        box("shop.example.com", "good", text="[RESOLVED] checkout has too few replicas"),
        "resolved",
        "checkout",
        "checkout has too few replicas",
    ),
    Layout(
        "Datadog, triggered",
        "Datadog documentation: Slack integration",
        box(
            "Triggered: Error rate is high on service:checkout",
            "danger",
            title_link="https://app.datadoghq.com/monitors/1234567?group=service%3Acheckout",
            text="More than 5 % of requests failed. @slack-alerts\n*Metric value:* 0.08",
            footer="Notified @slack-alerts",
        ),
        "firing",
        "checkout",
        "Error rate is high",
    ),
    Layout(
        "Sentry, classic",
        "github.com/getsentry/sentry src/sentry/integrations/slack/message_builder/issues.py",
        box(
            "KeyError: 'currency'",
            "#E03E2F",
            title_link="https://acme.sentry.io/issues/4567/?referrer=slack",
            text="checkout/prices.py in total",
            footer="CHECKOUT-1A via New issues",
            fields={"environment": "prod"},
        ),
        "firing",
        "checkout",
        "KeyError",
    ),
    Layout(
        "Sentry, blocks",
        "github.com/getsentry/sentry src/sentry/integrations/slack/message_builder/issues.py",
        colored(
            "#E03E2F",
            section(":red_circle: *<https://acme.sentry.io/issues/4567/|KeyError>*"),
            section("`'currency'`"),
            section(
                "Events: *12*   Users Affected: *4*   State: *New*   First Seen: *2 minutes ago*"
            ),
            context("Project: <https://acme.sentry.io/projects/checkout|checkout>    Alert: New"),
        ),
        "firing",
        "checkout",
        "KeyError",
    ),
    Layout(
        "PagerDuty, triggered",
        "PagerDuty support: Slack integration guide",
        blocks(
            section(
                ":red_circle: *Triggered* <https://acme.pagerduty.com/incidents/PGR0VU2|#1432: "
                "Checkout is failing>",
                "*Service*\n<https://acme.pagerduty.com/services/PSVC1|Checkout>",
                "*Urgency*\nHigh",
                "*Assigned to*\nAnn",
            )
        ),
        "firing",
        "checkout",
        "Checkout is failing",
        "high",
    ),
    Layout(
        "CloudWatch through Amazon Q",
        "AWS documentation: Amazon Q Developer in chat applications, CloudWatch alarms",
        {"text": ":rotating_light: *CloudWatch Alarm | checkout-5xx | eu-west-1 | Account: 1234*"}
        | box(
            "",
            "#D13212",
            text="Threshold Crossed: 1 out of the last 1 datapoints [12.0] was greater than the "
            "threshold (5.0).",
        ),
        "firing",
        "checkout",
        "checkout-5xx",
    ),
    Layout(
        "CloudWatch through a function",
        "github.com/atsushi-ishibashi/aws-alarm-metrics alarm-sns-basic",
        {
            "text": "*:exclamation:ALARM: Too many errors of checkout*\ncheckout-5xx\n"
            "Threshold Crossed: 1 datapoint (12.0) was greater than the threshold (5.0). "
            "@2026-11-28T11:27:40.000+0000"
        },
        "firing",
        "checkout",
        "Too many errors of checkout",
    ),
    Layout(
        "Icinga, service",
        "github.com/jjethwa/icinga2-slack-notification slack-service-notification.sh",
        {
            "text": ":bomb: HOST: <http://icinga.example/host?host=web1|web1>   SERVICE: "
            "<http://icinga.example/service?host=web1|checkout>  STATE: CRITICAL"
        },
        "firing",
        "checkout",
    ),
    Layout(
        "Argo CD, deployed",
        "github.com/argoproj/argo-cd notifications_catalog/templates/app-deployed.yaml",
        {"text": ":white_check_mark: Application checkout is now running new version."}
        | box(
            "checkout",
            "#18be52",
            title_link="https://argocd.example/applications/checkout",
            fields={"Sync Status": "Synced", "Repository": "https://github.com/acme/checkout"},
        ),
    ),
    Layout(
        "GitHub Actions, failed",
        "github.com/slackapi/slack-github-action, public examples",
        box(
            "acme/checkout: CI failed",
            "danger",
            title_link="https://github.com/acme/checkout/actions/runs/1",
            fields={"Branch": "main", "Commit": "a1b2c3d", "Author": "ann"},
        ),
    ),
    Layout(
        "Jenkins, failure",
        "plugins.jenkins.io/slack",
        box(
            "",
            "danger",
            text="checkout - #128 Failure after 2 min 3 sec "
            "(<https://jenkins.example/job/checkout/128/|Open>)",
        ),
    ),
    Layout(
        "Google Calendar",
        "Google Calendar for Slack, public screenshots",
        box(
            "Incident review",
            "#4285F4",
            pretext="Event starting in 10 minutes",
            text="11:00 - 12:00",
        ),
    ),
    Layout(
        "A poll",
        "Polly and Simple Poll, public screenshots",
        blocks(
            section("*Poll: Where is the next offsite?*"), section(":one: Rome\n:two: Down under")
        ),
    ),
    Layout(
        "A chat bot",
        "Composed: what team bots say",
        {"text": "Good morning! The coffee machine is down again, sorry :sob:"},
    ),
    Layout(
        "A weekly report",
        "Composed after reports of monitoring tools",
        box(
            "Weekly report: 3 incidents, 99.9 % uptime",
            "danger",
            text="checkout was down for 5 min",
        ),
    ),
)

HELD_BACK = (
    Layout(
        "Uptime Kuma, down",
        "github.com/louislam/uptime-kuma server/notification-providers/slack.js",
        {"text": "Uptime Kuma Alert\n[checkout] [🔴 Down] Request failed with status code 502"}
        | colored(
            "#e01e5a",
            header("Uptime Kuma Alert"),
            section("", "*Message*\n[checkout] [🔴 Down] Request failed with status code 502"),
            button("Visit Uptime Kuma", "https://uptime.example/dashboard/7"),
        ),
        "firing",
        "checkout",
        "checkout",
    ),
    Layout(
        "Gatus, triggered",
        "github.com/TwiN/gatus alerting/provider/slack/slack.go",
        box(
            ":helmet_with_white_cross: Gatus",
            "#DD0000",
            text="An alert for *checkout* has been triggered after 3 failures",
            fields={"Condition results": ":x: - `[STATUS] == 200`\n"},
        ),
        "firing",
        "checkout",
        "checkout",
    ),
    Layout(
        "Gatus, resolved",
        "github.com/TwiN/gatus alerting/provider/slack/slack.go",
        box(
            ":helmet_with_white_cross: Gatus",
            "#36A64F",
            text="An alert for *checkout* has been resolved after 2 successes",
            fields={"Condition results": ":white_check_mark: - `[STATUS] == 200`\n"},
        ),
        "resolved",
    ),
    Layout(
        "Netdata, critical",
        "github.com/netdata/netdata src/health/notifications/alarm-notify.sh.in",
        {"text": "web1 is critical, `system.cpu` (_cpu_), *10min_cpu_usage = 97%*"}
        | box(
            "10min cpu usage = 97%",
            "danger",
            title_link="https://netdata.example/#chart=system.cpu;alarm=7",
            text="average CPU use of the last 10 minutes",
            fields={"system.cpu": "", "cpu": ""},
            footer="web1",
        ),
        "firing",
        None,
        "10min cpu usage",
        "critical",
    ),
    Layout(
        "Checkmk, critical",
        "github.com/Checkmk/checkmk cmk/notification_plugins/slack.py",
        box(
            "Service PROBLEM notification",
            "#EE0000",
            text="Host: <https://mk.example/web1|web1>\nService: <https://mk.example/s|checkout>\n"
            "Event: OK → CRITICAL\nSummary: CRIT - HTTP 502",
        ),
        "firing",
        "checkout",
    ),
    Layout(
        "Zabbix, problem",
        "git.zabbix.com templates/media/slack",
        box(
            "Problem: Too many errors of checkout",
            "#E97659",
            title_link="https://zabbix.example/tr_events.php?triggerid=17&eventid=99",
            fields={
                "Host": "web1",
                "Event time": "2026-11-28 11:20:00",
                "Severity": "High",
                "Opdata": "12 %",
            },
        ),
        "firing",
        "checkout",
        "Too many errors of checkout",
        "high",
    ),
    Layout(
        "Dynatrace, problem",
        "Dynatrace documentation: Slack integration",
        box(
            "",
            "#dc172a",
            pretext="OPEN Problem P-2611: Failure rate increase",
            text="Problem detected at: 11:20 (UTC)\n*Impacted entities:* Service checkout"
            "\n<https://abc.live.dynatrace.com/#problems/problemdetails;pid=-99|Open in Dynatrace>",
        ),
        "firing",
        "checkout",
        "Failure rate increase",
    ),
    Layout(
        "Azure Monitor, logic app",
        "learn.microsoft.com: customize alert notifications by using Logic Apps",
        {
            "text": "Azure alert fired: *checkout-failed-requests*\nSeverity: Sev1\n"
            "Monitor condition: Fired\nResource: /subscriptions/1/resourcegroups/shop/providers/"
            "microsoft.insights/components/checkout"
        },
        "firing",
        "checkout",
        "checkout-failed-requests",
        "sev1",
    ),
    Layout(
        "Google Cloud Monitoring, open",
        "cloud.google.com/monitoring: Slack notification channels",
        box(
            "Incident started: High error rate",
            "#DB4437",
            title_link="https://console.cloud.google.com/monitoring/alerting/incidents/0.abc",
            text="Cloud Run revision checkout: error rate above the threshold of 0.05",
            fields={"Start time": "Nov 28, 2026 at 11:20AM UTC", "Policy": "Checkout errors"},
        ),
        "firing",
        "checkout",
        "High error rate",
    ),
    Layout(
        "ElastAlert, match",
        "github.com/jertel/elastalert2 elastalert/alerters/slack.py",
        box(
            "Checkout errors spike",
            "danger",
            text="Checkout errors spike\n\nAn abnormal number (512) of events occurred around "
            "2026-11-28 11:20 UTC.\nservice: checkout\n",
        ),
        "firing",
        "checkout",
        "Checkout errors spike",
    ),
    Layout(
        "Splunk, saved search",
        "splunkbase: Slack Notification Alert",
        {
            "text": "The alert *checkout 5xx above 5 %* was triggered: 37 results "
            "<https://splunk.example/app/search/@go?sid=scheduler_1|View results>"
        },
        "firing",
        "checkout",
        "checkout 5xx above 5 %",
    ),
    Layout(
        "SigNoz, firing",
        "signoz.io documentation: Slack notification channel",
        box(
            "[FIRING:1] CheckoutLatency for checkout",
            "danger",
            title_link="https://signoz.example/alerts/history?ruleId=7",
            text="*Alert:* CheckoutLatency - critical\n *Summary:* p99 is above 2 s\n"
            " *Details:*\n • *service_name:* checkout\n",
        ),
        "firing",
        "checkout",
        "CheckoutLatency",
        "critical",
    ),
    Layout(
        "Checkly, failing",
        "checklyhq.com documentation: Slack alert channel",
        box(
            "",
            "#E01E5A",
            text=":x: *<https://app.checklyhq.com/checks/8a2f|checkout API> has failed*",
            fields={"Check type": "API", "Location": "Frankfurt", "Response time": "612 ms"},
        ),
        "firing",
        "checkout",
        "checkout API",
    ),
    Layout(
        "Site24x7, down",
        "site24x7.com help: Slack integration",
        box(
            "checkout is Down",
            "#FF0000",
            fields={"Reason": "HTTP 502", "Down since": "28 Nov 2026 11:20", "Type": "Website"},
        ),
        "firing",
        "checkout",
        "checkout is Down",
    ),
    Layout(
        "Rollbar, new item",
        "docs.rollbar.com: Slack",
        {"text": "[checkout] production - New Error: #123 KeyError: 'currency'"}
        | box(
            "#123 KeyError: 'currency'",
            "#d9534f",
            title_link="https://app.rollbar.com/a/acme/fix/item/checkout/123",
        ),
        "firing",
        "checkout",
        "KeyError",
    ),
    Layout(
        "Bugsnag, new error",
        "docs.bugsnag.com: Slack",
        {"text": "New error in *production* from *checkout*"}
        | box(
            "KeyError",
            "#E74C3C",
            title_link="https://app.bugsnag.com/acme/checkout/errors/5f00",
            text="'currency' in prices.py:41",
        ),
        "firing",
        "checkout",
        "KeyError",
    ),
    Layout(
        "Splunk On-Call, critical",
        "help.victorops.com: Slack integration",
        box(
            "",
            "#ff0000",
            text="*CRITICAL* Incident #88: checkout is not answering\nService: checkout\n"
            "<https://portal.victorops.com/ui/acme/incident/88|Incident>",
        ),
        "firing",
        "checkout",
        "checkout is not answering",
        "critical",
    ),
    Layout(
        "FireHydrant, opened",
        "docs.firehydrant.com: Slack integration",
        blocks(
            header("🔥 Incident opened: checkout returns errors"),
            section("", "*Severity*\nSEV1", "*Current milestone*\nInvestigating"),
            button("View", "https://app.firehydrant.io/incidents/9f"),
        ),
        "firing",
        "checkout",
        "checkout returns errors",
        "sev1",
    ),
    Layout(
        "A German monitor",
        "Composed: a monitor with German texts",
        {"text": "Störung: checkout nicht erreichbar seit 11:20 Uhr (HTTP 502)"},
        "firing",
        "checkout",
    ),
    Layout(
        "A Japanese monitor, recovered",
        "Composed: a monitor with Japanese texts",
        box("checkout が復旧しました", "good", fields={"サービス": "checkout", "状態": "正常"}),
        "resolved",
    ),
    Layout(
        "GitLab, pipeline",
        "docs.gitlab.com: Slack notifications",
        box(
            "",
            "danger",
            text="acme/checkout: Pipeline <https://gitlab.example/acme/checkout/-/pipelines/9|#9> "
            "of branch `main` by ann failed in 01:37",
        ),
    ),
    Layout(
        "CircleCI, job",
        "circleci.com documentation: Slack orb, basic_fail_1",
        blocks(
            header("Job Failed. :red_circle:"),
            section("", "*Job*: test"),
            section("", "*Project*: checkout", "*Branch*: main", "*Commit*: a1b2", "*Author*: ann"),
            button("View Job", "https://circleci.com/gh/acme/checkout/77"),
        ),
    ),
    Layout(
        "Statuspage, of a vendor",
        "support.atlassian.com/statuspage: Slack subscriptions",
        box(
            "Degraded performance of Actions",
            "#e67e22",
            title_link="https://www.githubstatus.com/incidents/abc",
            text="Investigating - We are investigating reports of degraded performance.",
        ),
    ),
    Layout(
        "Dependabot",
        "docs.github.com: GitHub for Slack, Dependabot alerts",
        box(
            "Critical severity vulnerability in lodash",
            "danger",
            title_link="https://github.com/acme/checkout/security/dependabot/7",
        ),
    ),
    Layout(
        "A reminder",
        "Slackbot's reminders",
        {"text": "Reminder: check the error budget of checkout."},
    ),
)

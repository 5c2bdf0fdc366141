"""Messages that were written after the reader of Slack's alerts, to see what it makes of layouts
that nobody had in mind. Names, numbers and texts are invented."""

from __future__ import annotations

from tests.bot.intake.slack_layouts import Layout, blocks, box, button, context, header, section

UNFORESEEN = [
    Layout(
        "Redash",
        "getredash/redash: destinations/slack.py",
        box(
            color="#c0392b",
            text="checkout failed payments just triggered",
            fields={"Alert": "https://redash.example.com/alerts/7"},
        ),
        "firing",
        "checkout",
        "checkout failed payments",
    ),
    Layout(
        "Redash, over",
        "getredash/redash: destinations/slack.py",
        box(color="#27ae60", text="checkout failed payments went back to normal"),
        "resolved",
    ),
    Layout(
        "SilentCanary",
        "tabibazar/silentcanary: SLACK_SETUP.md",
        {
            "text": '🚨 SilentCanary Alert\n\nCanary "checkout nightly export" has failed to check '
            "in!\n\n• Last check-in: 2026-11-28 10:30 UTC\n• Grace period: 5 minutes\n\n"
            "Please investigate your monitoring target immediately."
        },
        "firing",
        "checkout",
        "failed to check in",
    ),
    Layout(
        "Opsee",
        "opsee/notification-templates: check-failing",
        box(
            "HTTP checkout failing in prod-group",
            "#f44336",
            pretext="Failing check",
            title_link="https://app.opsee.com/check/ab12",
            text="3 of 5 Failing",
        ),
        "firing",
        "checkout",
        "HTTP checkout failing",
    ),
    Layout(
        "Sensu",
        "sensu/sensu-slack-handler",
        box(
            "Description",
            "danger",
            text="CheckHttp CRITICAL: 503 from checkout",
            fields={"Status": "Critical", "Entity": "web-3", "Check": "check_checkout_http"},
        ),
        "firing",
        "checkout",
        "CheckHttp CRITICAL: 503 from checkout",
    ),
    Layout(
        "Sensu, over",
        "sensu/sensu-slack-handler",
        box(
            "Description",
            "good",
            text="CheckHttp OK: 200",
            fields={"Status": "Resolved", "Entity": "web-3", "Check": "check_checkout_http"},
        ),
        "resolved",
    ),
    Layout(
        "Bosun",
        "a published Slack template for Bosun",
        box(
            "critical: HTTPUnit Check for checkout.example.com returned error(s)",
            "danger",
            fields={"General Rollup Error": "True", "Getting Expected Response Code": "False"},
        ),
        "firing",
        "checkout",
        "HTTPUnit Check for checkout.example.com",
    ),
    Layout(
        "Flux",
        "fluxcd/notification-controller: slack",
        box(
            color="danger",
            author_name="kustomization/checkout.shop",
            text="Health check failed after 5m: timeout waiting for: "
            "[Deployment/shop/checkout status: 'InProgress']",
            fields={"revision": "main@sha1:ab12"},
        ),
        "firing",
        "checkout",
        "Health check failed",
    ),
    Layout(
        "Falco",
        "falcosecurity/falcosidekick: docs/outputs/slack.md",
        box(
            color="#fb923c",
            text="A shell was spawned in a container with an attached terminal",
            fields={
                "rule": "Terminal shell in container",
                "priority": "Critical",
                "k8s.pod.name": "checkout-7c9f6d5b8-x2x1p",
            },
        ),
        "firing",
        "checkout",
    ),
    Layout(
        "OpenStatus",
        "openstatus.dev: notifications/slack",
        blocks(
            header("checkout API is failing"),
            section("`GET` https://shop.example.com/checkout"),
            section("Details", "*Status*\n503", "*Regions*\nfra, ams"),
            context("Sat, 28 Nov 2026 11:28 UTC"),
            button("View Dashboard", "https://www.openstatus.dev/app/monitors/12"),
        ),
        "firing",
        "checkout",
        "checkout API is failing",
    ),
    Layout(
        "LibreNMS",
        "docs.librenms.org, Slack transport",
        box(
            "Alert for device web-3.shop.example.com - Device Down! Due to no ICMP response.",
            "#ff0000",
            text="Severity: critical\nRule: Device Down\nTimestamp: 2026-11-28 11:28:00",
            author_name="LibreNMS Bot",
        ),
        "firing",
        None,
        "Device Down",
    ),
    Layout(
        "Sumo Logic",
        "sumologic.com, webhook for Slack",
        box(
            color="#bf2121",
            pretext="Sumo Logic Alert",
            fields={
                "Name": "Checkout 5xx above 50",
                "Trigger Type": "Critical",
                "Trigger Condition": "Greater than 50 in the last 5 minutes",
                "Trigger Value": "83",
            },
        ),
        "firing",
        "checkout",
        "Checkout 5xx above 50",
    ),
    Layout(
        "Panto",
        "pantomath-io/panto, issue on Slack alerts",
        box(
            "Critical",
            "danger",
            fields={
                "localisation": "orders-redis - redis probe - agent-1",
                "output message": "RedisResultInputKbps is smaller than 12 Kbps",
            },
            footer="Panto by Pantomath",
        ),
        "firing",
        None,
    ),
    Layout(
        "HyperDX",
        "hyperdxio/hyperdx: Slack template",
        {
            "text": '🚨 Alert for "checkout errors" - 41 lines found - expected less than 10 lines',
            **blocks(section("41 lines found, expected less than 10 lines")),
        },
        "firing",
        "checkout",
        "checkout errors",
    ),
    Layout(
        "Grafana OnCall",
        "grafana/oncall: Slack template of Alertmanager",
        {
            "attachments": [
                {
                    "color": "#a30200",
                    **blocks(
                        section("*<https://acme.grafana.net/a/x/alert-groups/I6H|#42 HighErrors>*"),
                        section("*Status*: firing\n*Labels*:\n- service: checkout"),
                    ),
                }
            ]
        },
        "firing",
        "checkout",
        "HighErrors",
    ),
    Layout(
        "Rootly",
        "rootly.com, Slack announcement",
        blocks(
            header("🚨 New Incident Declared"),
            section("*<https://rootly.com/account/incidents/12|Checkout errors>*"),
            section("Details", "*Severity:* SEV1", "*Status:* Started", "*Services:* checkout"),
        ),
        "firing",
        "checkout",
        "Checkout errors",
        "sev1",
    ),
    Layout(
        "Squadcast",
        "support.squadcast.com, Slack",
        box(
            "[Triggered] Checkout 5xx is above 5 %",
            "#e53e3e",
            title_link="https://app.squadcast.com/incident/64ab12",
            fields={"Service": "checkout", "Alert Source": "Prometheus"},
        ),
        "firing",
        "checkout",
        "Checkout 5xx is above 5 %",
    ),
    Layout(
        "Cronitor",
        "cronitor.io, Slack",
        box(
            "checkout-nightly-export failed: exit code 1",
            "#cc3d3d",
            title_link="https://cronitor.io/app/monitors/ab12cd",
            text="Job has failed. Started at 11:20 UTC, ran 12 seconds.",
        ),
        "firing",
        "checkout",
        "exit code 1",
    ),
    Layout(
        "Oh Dear",
        "ohdear.app, Slack notifications",
        box(
            "Site down",
            "danger",
            text="We could not reach https://checkout.example.com (HTTP 500).",
            fields={"Site": "checkout.example.com"},
        ),
        "firing",
        "checkout",
    ),
    Layout(
        "Honeybadger",
        "docs.honeybadger.io, Slack",
        box(
            "ActiveRecord::ConnectionTimeoutError: could not obtain a connection",
            "#F25B4B",
            pretext="[<https://app.honeybadger.io/projects/1|checkout>] Error occurred in "
            "<https://app.honeybadger.io/projects/1/faults/991|production>",
            title_link="https://app.honeybadger.io/projects/1/faults/991",
        ),
        "firing",
        "checkout",
        "ConnectionTimeoutError",
    ),
    Layout(
        "Coralogix",
        "coralogix.com, Slack",
        box(
            "Alert triggered: checkout error ratio",
            "#D80027",
            fields={"Priority": "P1", "Application": "shop", "Subsystem": "checkout"},
        ),
        "firing",
        "checkout",
        "checkout error ratio",
    ),
    Layout(
        "Instana",
        "ibm.com, Instana alert channels",
        box(
            "Issue opened: Sudden increase in the number of erroneous calls",
            "#FF0000",
            title_link="https://acme.instana.io/#/events;eventId=ab12",
            fields={"Service": "checkout", "Severity": "Critical"},
        ),
        "firing",
        "checkout",
        "Sudden increase",
    ),
    Layout(
        "AppDynamics",
        "docs.appdynamics.com, HTTP request templates",
        box(
            "Health Rule Violation Started - Critical",
            "#ff0000",
            text="Business Transaction response time is much higher than normal started violating",
            fields={"Application": "shop", "Tier": "checkout"},
        ),
        "firing",
        "checkout",
        "Health Rule Violation",
    ),
    Layout(
        "Kibana",
        "elastic.co, default message of observability rules",
        {
            "text": "checkout error rate is active.\n\n"
            "[View alert details](https://kibana.example.com/app/observability/alerts/ab12)\n\n"
            "- Reason: Failed transaction rate is 31% in the last 5 mins. Alert when > 10%."
        },
        "firing",
        "checkout",
        "checkout error rate",
    ),
    Layout(
        "A template of somebody's own",
        "Alertmanager's Slack templates",
        {
            "text": ":fire: *[prod-eu] checkout p99 latency* is 3.4s (threshold 2s)\n"
            "<https://grafana.example.com/d/abc|dashboard>"
        },
        "firing",
        "checkout",
        "checkout p99 latency",
    ),
    Layout(
        "Nagios",
        "a published Slack plugin for Nagios",
        box(
            color="danger",
            text="HOST: web-3   SERVICE: checkout HTTP   MESSAGE: CRITICAL - Socket timeout",
        ),
        "firing",
        "checkout",
    ),
    Layout(
        "PRTG",
        "paessler.com, Slack notifications",
        box(
            "Sensor HTTP checkout (HTTP) Down",
            "danger",
            text="Device: web-3\nStatus: Down\nMessage: 503\nDown for: 5 m 12 s",
        ),
        "firing",
        "checkout",
        "checkout",
    ),
    Layout(
        "Airflow",
        "a published failure callback for Airflow",
        {
            "text": ":red_circle: Task Failed.\n*Task*: load_orders\n*Dag*: checkout_export\n"
            "*Execution Time*: 2026-11-28T11:00:00+00:00"
        },
        "firing",
        "checkout",
    ),
    Layout(
        "LogicMonitor",
        "logicmonitor.com, Slack integration",
        box(
            color="danger",
            text="*Critical Alert* LMD123\n*Host:* web-3\n*Datasource:* HTTP checkout\n"
            "*Level:* critical\n*Value:* 3400",
        ),
        "firing",
        "checkout",
    ),
    Layout(
        "Komodor",
        "docs.komodor.com, Slack",
        blocks(
            header("Availability issue: checkout"),
            section("*Deployment* `shop/checkout` is unhealthy: 0/3 replicas ready"),
            section("Details", "*Cluster:* prod-eu", "*Namespace:* shop"),
            button("Open in Komodor", "https://app.komodor.com/main/issues/ab12"),
        ),
        "firing",
        "checkout",
        "Availability issue",
    ),
    Layout(
        "Spike.sh",
        "docs.spike.sh, Slack",
        {
            "text": "🔴 *[SPIKE-221] Checkout 5xx rate above 5%* triggered\nService: checkout\n"
            "<https://app.spike.sh/incidents/221|View incident>"
        },
        "firing",
        "checkout",
        "Checkout 5xx rate above 5%",
    ),
    Layout(
        "Prefect",
        "docs.prefect.io, Slack notifications",
        {
            "text": "Flow run checkout-export/happy-otter entered state `Failed` at "
            "2026-11-28T11:27:00+00:00.\nFlow run URL: https://app.prefect.cloud/runs/ab12"
        },
        "firing",
        "checkout",
    ),
    Layout(
        "Monte Carlo",
        "docs.getmontecarlo.com, Slack",
        box(
            "Freshness anomaly: analytics.checkout_orders",
            "danger",
            title_link="https://getmontecarlo.com/alerts/ab12",
            fields={"Severity": "SEV-2", "Last update": "7 hours ago"},
        ),
        "firing",
        "checkout",
        "Freshness anomaly",
    ),
    Layout(
        "A French monitor",
        "none",
        {"text": "🔴 ALERTE : le service checkout est indisponible depuis 11h20 (HTTP 503)"},
        "firing",
        "checkout",
    ),
    Layout(
        "A Spanish monitor, over",
        "none",
        {"text": "✅ RESUELTO: el servicio checkout se ha recuperado tras 12 min"},
        "resolved",
    ),
    Layout(
        "A reminder of a review",
        "none",
        {
            "text": "*Incident review* scheduled for Monday 10:00: checkout outage of last week. "
            "Please add your notes <https://wiki.example.com/x|here>."
        },
    ),
    Layout(
        "A dependency bot",
        "none",
        {
            "text": "checkout: update dependency axios to v1.7.9: "
            "<https://github.com/acme/checkout/pull/12|PR #12> passed all checks"
        },
    ),
    Layout(
        "A deploy bot",
        "none",
        box(
            "Deploy of checkout v2.3.1 to prod failed",
            "danger",
            text="Stage: smoke tests\nCommit: ab12cd3 by ann",
            title_link="https://deploy.example.com/deploys/77",
        ),
    ),
]

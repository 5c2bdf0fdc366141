# Faultline on AWS: servers behind a load balancer, workers that scale with the queue, PostgreSQL, a bucket for cases.

data "aws_region" "current" {}
data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  region    = data.aws_region.current.region
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  base_url  = "https://${var.host_name}"

  # The bot's own addresses that others call: the alert sources (bot/settings/alert_sources.py), bot/web/oidc.
  paths = {
    pagerduty           = "/webhooks/pagerduty"
    alertmanager        = "/webhooks/alertmanager"
    datadog             = "/webhooks/datadog"
    sentry              = "/webhooks/sentry"
    azure_monitor       = "/webhooks/azure_monitor"
    incident_io         = "/webhooks/incident_io"
    rootly              = "/webhooks/rootly"
    msteams             = "/webhooks/msteams"
    webhook             = "/webhooks/webhook"
    sns                 = "/webhooks/sns"
    slack_events        = "/slack/events"
    slack_interactivity = "/slack/interactivity"
  }

  # Each Slack workspace has addresses of its own, as bot/intake/sources/slack.py has them.
  workspace_paths = merge([
    for name in var.slack_workspaces : {
      "slack_events_${name}"        = "${local.paths.slack_events}/${name}"
      "slack_interactivity_${name}" = "${local.paths.slack_interactivity}/${name}"
    }
  ]...)
  intake_paths = merge(local.paths, local.workspace_paths, { changes = "/changes" })

  # Secrets of the settings by process, written from them: python -m infra.checks.settings_secrets. `<NAME>` is an instance's name.
  secret_patterns_of = { for process, names in jsondecode(file("${path.module}/settings-secrets.json")) : process => [
    for name in names : "^${replace(name, "<NAME>", "[A-Z0-9]+(?:_[A-Z0-9]+)*")}$"
  ] }
  secret_patterns = distinct(concat(values(local.secret_patterns_of)...))
}

module "case_store" {
  source = "./modules/case-store"

  bucket                = coalesce(var.cases_bucket, "${var.name}-cases-${local.account}-${local.region}")
  trace_buckets         = var.trace_buckets
  retention_days        = var.case_retention_days
  deleted_versions_days = var.case_deleted_versions_days
  kms_key_arn           = var.kms_key_arn
  policy_name           = "${var.name}-cases"
  force_destroy         = !var.deletion_protection
  tags                  = var.tags
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  setting {
    name  = "containerInsights"
    value = "enabled" # without it nobody counts running tasks, and the alarm on workers has nothing to go by
  }
  tags = var.tags
}

resource "aws_cloudwatch_log_group" "server" {
  name              = "/${var.name}/server"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_cloudwatch_log_group" "worker" {
  name              = "/${var.name}/worker"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

output "url" {
  description = "The pages, and what all addresses below begin with."
  value       = local.base_url
}

output "webhook_urls" {
  description = "What to enter at each vendor: `pagerduty`, `alertmanager`, `datadog`, `sentry`, `azure_monitor`, `incident_io`, `rootly`, `msteams`, `webhook`, `sns`, `slack_events`, `slack_interactivity`, the last two for each of `slack_workspaces` too (`slack_events_eu`), and `changes`."
  value       = { for name, path in local.intake_paths : name => "${local.base_url}${path}" }
}

output "login_redirect_url" {
  description = "Where the provider of a company login sends people back to."
  value       = "${local.base_url}/login/callback"
}

output "load_balancer_dns_name" {
  description = "What host_name must point at, where route53_zone_id is not given."
  value       = aws_lb.this.dns_name
}

output "load_balancer_zone_id" {
  description = "Zone of the load balancer's name, for an alias record."
  value       = aws_lb.this.zone_id
}

output "worker_role_arn" {
  description = "Who reads: the role that other accounts' read-only roles trust (`modules/read-only-role`)."
  value       = aws_iam_role.worker.arn
}

output "server_role_arn" {
  description = "The servers' role."
  value       = aws_iam_role.server.arn
}

output "secret_arns" {
  description = "Where the value of each secret is kept, by the name of its environment variable."
  value       = { for name, secret in aws_secretsmanager_secret.setting : name => secret.arn }
}

output "cluster_name" {
  description = "The ECS cluster; its services are `server` and `worker`."
  value       = aws_ecs_cluster.this.name
}

output "log_groups" {
  description = "Where `server` and `worker` log."
  value       = { server = aws_cloudwatch_log_group.server.name, worker = aws_cloudwatch_log_group.worker.name }
}

output "database_address" {
  description = "The database's host, reached from the private subnets alone."
  value       = aws_db_instance.this.address
}

output "cases_location" {
  description = "Where case folders lie."
  value       = module.case_store.cases_location
}

output "web_acl_arn" {
  description = "The web access control list, to add rules of your own to."
  value       = aws_wafv2_web_acl.this.arn
}

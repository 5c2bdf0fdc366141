# What must hold of every installation, whatever its variables.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-west-1" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_subnet" {
    defaults = { cidr_block = "10.0.1.0/24" }
  }
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  vpc_id               = "vpc-1"
  public_subnet_ids    = ["subnet-1", "subnet-2"]
  private_subnet_ids   = ["subnet-3", "subnet-4"]
  secret_values        = {}
  host_name            = "faultline.example.com"
  certificate_arn      = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
  image                = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/faultline:0.1.0"
  image_repository_arn = "arn:aws:ecr:eu-west-1:123456789012:repository/faultline"
  secrets              = ["FAULTLINE_SERVER__ACCESS_TOKEN", "FAULTLINE_SLACK__BOT_TOKEN", "FAULTLINE_SLACK__EU_1__BOT_TOKEN", "FAULTLINE_DATADOG__SHOP__API_KEY", "FAULTLINE_DATADOG__SHOP__WEBHOOK_TOKENS"]
  slack_workspaces     = ["eu-1"]
  read_role_arns       = ["arn:aws:iam::210987654321:role/faultline-read"]
  alarm_topic_arns     = ["arn:aws:sns:eu-west-1:123456789012:alarms"]
}

run "installation" {
  # database
  assert {
    condition     = aws_db_instance.this.storage_encrypted
    error_message = "The database must be encrypted."
  }
  assert {
    condition     = aws_db_instance.this.publicly_accessible == false
    error_message = "The database must not be reached from outside."
  }
  assert {
    condition     = aws_db_instance.this.deletion_protection && !aws_db_instance.this.skip_final_snapshot
    error_message = "The database must withstand a destroy, and leave a snapshot."
  }
  assert {
    condition     = aws_db_instance.this.multi_az && aws_db_instance.this.backup_retention_period >= 7
    error_message = "By default there must be a standby and backups of a week."
  }
  assert {
    condition     = aws_db_instance.this.max_allocated_storage > aws_db_instance.this.allocated_storage
    error_message = "Storage must grow by itself."
  }
  assert {
    condition     = anytrue([for p in aws_db_parameter_group.this.parameter : p.name == "rds.force_ssl" && p.value == "1"])
    error_message = "The database must refuse connections without TLS."
  }
  assert {
    condition     = strcontains(local.database_url, "sslmode=verify-full") && !can(regex("://[^/]*@", local.database_url))
    error_message = "The bot must verify the database's certificate, and its address must hold no password."
  }
  assert {
    condition     = aws_db_instance.this.password == null
    error_message = "The password must be write-only: anything else is kept in the state."
  }

  # network
  assert {
    condition     = alltrue([for rule in aws_vpc_security_group_ingress_rule.database : rule.cidr_ipv4 == null && rule.from_port == 5432 && rule.to_port == 5432])
    error_message = "Only the bot's own tasks may reach the database."
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.server.cidr_ipv4 == null && aws_vpc_security_group_ingress_rule.server.from_port == 8080 && aws_vpc_security_group_ingress_rule.server.to_port == 8080
    error_message = "Only the load balancer may reach the servers."
  }
  assert {
    condition     = alltrue([for rule in aws_vpc_security_group_ingress_rule.https : rule.from_port == 443 && rule.to_port == 443 && rule.ip_protocol == "tcp"])
    error_message = "The load balancer takes HTTPS alone."
  }
  assert {
    condition     = alltrue([for rule in aws_vpc_security_group_egress_rule.outwards : rule.ip_protocol == "tcp" && rule.from_port == rule.to_port])
    error_message = "Each way out is one TCP port."
  }
  assert {
    condition = alltrue([for service in [aws_ecs_service.server, aws_ecs_service.worker] :
      service.network_configuration[0].assign_public_ip == false && length(setsubtract(service.network_configuration[0].subnets, var.private_subnet_ids)) == 0
    ])
    error_message = "Tasks run in private subnets, without public addresses."
  }
  assert {
    condition     = !contains(flatten([for s in [aws_ecs_service.worker] : s.network_configuration[0].security_groups]), aws_security_group.server.id)
    error_message = "Nobody calls a worker: it has a security group of its own, without a way in."
  }

  # load balancer
  assert {
    condition     = aws_lb_listener.http.default_action[0].type == "redirect" && aws_lb_listener.http.default_action[0].redirect[0].protocol == "HTTPS"
    error_message = "Plain HTTP must serve nothing."
  }
  assert {
    condition     = aws_lb_listener.https.protocol == "HTTPS" && aws_lb_listener.https.certificate_arn == var.certificate_arn
    error_message = "The listener that serves must be HTTPS with the certificate."
  }
  assert {
    condition     = strcontains(aws_lb_listener.https.ssl_policy, "TLS13-1-2")
    error_message = "TLS 1.2 or newer alone."
  }
  assert {
    condition     = aws_lb.this.drop_invalid_header_fields && aws_lb.this.enable_deletion_protection
    error_message = "The load balancer must drop malformed headers, and withstand a destroy."
  }
  assert {
    condition     = aws_wafv2_web_acl_association.this.resource_arn == aws_lb.this.arn && aws_wafv2_web_acl_association.this.web_acl_arn == aws_wafv2_web_acl.this.arn
    error_message = "The web ACL must be in front of the load balancer."
  }

  # web acl
  assert {
    condition = length(setsubtract(
      ["AWSManagedRulesCommonRuleSet", "AWSManagedRulesKnownBadInputsRuleSet"],
      [for rule in aws_wafv2_web_acl.this.rule : rule.name],
    )) == 0
    error_message = "AWS's managed rules must look at pages."
  }
  assert {
    condition = alltrue(flatten([for rule in aws_wafv2_web_acl.this.rule : [
      for group in rule.statement[0].managed_rule_group_statement :
      length(group.scope_down_statement[0].not_statement) == 1
    ]]))
    error_message = "No managed rule may stop a webhook: alerts quote anything, and are signed."
  }
  assert {
    condition     = var.webhook_rate_limit >= 200 * 300
    error_message = "An incident's 200 webhooks a second must pass."
  }
  assert {
    condition     = one([for rule in aws_wafv2_web_acl.this.rule : rule.statement[0].size_constraint_statement[0].size if rule.name == "announced-too-long"]) > length("1048576")
    error_message = "A webhook of 1 MB must pass."
  }

  # roles
  assert {
    condition = alltrue(flatten([for document in [data.aws_iam_policy_document.execution, data.aws_iam_policy_document.read_other_accounts[0]] : [
      for statement in document.statement : [for action in statement.actions : !strcontains(action, "*")]
    ]]))
    error_message = "No policy may allow an action by wildcard."
  }
  assert {
    condition = alltrue(flatten([for statement in data.aws_iam_policy_document.execution.statement : [
      for resource in statement.resources : resource != "*" || statement.sid == "LogInToRegistry"
    ]]))
    error_message = "Only ecr:GetAuthorizationToken, for which AWS knows no resource, may be allowed on all."
  }
  assert {
    condition = alltrue([for statement in data.aws_iam_policy_document.tasks.statement :
      alltrue([for principal in statement.principals : principal.type == "Service" && principal.identifiers == toset(["ecs-tasks.amazonaws.com"]) || principal.identifiers == tolist(["ecs-tasks.amazonaws.com"])]) && length(statement.condition) == 2
    ])
    error_message = "Only ECS tasks of this account may take the roles."
  }
  assert {
    condition     = aws_iam_role_policy.read_this_account[0].role == aws_iam_role.worker.id && aws_iam_role_policy.read_other_accounts[0].role == aws_iam_role.worker.id
    error_message = "Reading is the workers' alone."
  }

  # containers
  assert {
    condition = alltrue(flatten([for task in [aws_ecs_task_definition.server, aws_ecs_task_definition.worker] : [
      for container in jsondecode(task.container_definitions) :
      container.readonlyRootFilesystem && !container.privileged && container.user == "10001:10001" && container.linuxParameters.capabilities.drop == ["ALL"]
    ]]))
    error_message = "Containers run as nobody in particular, on a read-only file system, without capabilities."
  }
  assert {
    condition = alltrue(flatten([for task in [aws_ecs_task_definition.server, aws_ecs_task_definition.worker] : [
      for container in jsondecode(task.container_definitions) : [
        for variable in container.environment : !anytrue([for pattern in local.secret_patterns : can(regex(pattern, variable.name))])
      ]
    ]]))
    error_message = "A secret must not stand in a task's definition."
  }
  assert {
    condition = length(setsubtract(concat(tolist(var.secrets), ["PGUSER", "PGPASSWORD"]), flatten([
      for task in [aws_ecs_task_definition.server, aws_ecs_task_definition.worker] : [for secret in jsondecode(task.container_definitions)[1].secrets : secret.name]
    ]))) == 0
    error_message = "Every secret must reach the tasks from Secrets Manager."
  }
  assert {
    condition = toset([for secret in jsondecode(aws_ecs_task_definition.server.container_definitions)[1].secrets : secret.name]) == toset([
      "FAULTLINE_DATADOG__SHOP__WEBHOOK_TOKENS", "FAULTLINE_SERVER__ACCESS_TOKEN", "FAULTLINE_SLACK__BOT_TOKEN", "FAULTLINE_SLACK__EU_1__BOT_TOKEN", "PGPASSWORD", "PGUSER",
    ])
    error_message = "The servers must hold what proves senders and opens the store, and no key of a vendor."
  }
  assert {
    condition = toset([for secret in jsondecode(aws_ecs_task_definition.worker.container_definitions)[1].secrets : secret.name]) == toset([
      "FAULTLINE_DATADOG__SHOP__API_KEY", "FAULTLINE_SLACK__BOT_TOKEN", "FAULTLINE_SLACK__EU_1__BOT_TOKEN", "PGPASSWORD", "PGUSER",
    ])
    error_message = "The workers must hold no secret that proves a sender or a visitor."
  }
  assert {
    condition     = alltrue([for task in [aws_ecs_task_definition.server, aws_ecs_task_definition.worker] : jsondecode(task.container_definitions)[1].healthCheck.retries >= 2])
    error_message = "Each task must be watched."
  }
  assert {
    condition     = alltrue([for task in [aws_ecs_task_definition.server, aws_ecs_task_definition.worker] : jsondecode(task.container_definitions)[1].stopTimeout == 120])
    error_message = "A task that is told to stop must get all the time that Fargate gives."
  }
  assert {
    condition     = alltrue([for service in [aws_ecs_service.server, aws_ecs_service.worker] : service.deployment_circuit_breaker[0].enable && service.deployment_circuit_breaker[0].rollback && service.deployment_minimum_healthy_percent == 100])
    error_message = "A version that does not start must be rolled back, and the old one serve meanwhile."
  }

  # logs and alarms
  assert {
    condition     = alltrue([for group in concat([aws_cloudwatch_log_group.server, aws_cloudwatch_log_group.worker, aws_cloudwatch_log_group.waf], values(aws_cloudwatch_log_group.database)) : coalesce(group.retention_in_days, 0) > 0])
    error_message = "Logs must not be kept forever."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.queue_waits.namespace == "Faultline" && aws_cloudwatch_metric_alarm.queue_waits.metric_name == "QueueAgeSeconds" && local.environment.FAULTLINE_TELEMETRY__CLOUDWATCH_NAMESPACE == "Faultline"
    error_message = "Workers must scale on the metric that the servers write."
  }
  assert {
    condition     = contains(aws_cloudwatch_metric_alarm.queue_waits.alarm_actions, aws_appautoscaling_policy.more_workers.arn)
    error_message = "A queue that waits must start a worker."
  }
  assert {
    condition = alltrue([for alarm in concat([aws_cloudwatch_metric_alarm.no_worker], values(aws_cloudwatch_metric_alarm.bot), values(aws_cloudwatch_metric_alarm.load_balancer), values(aws_cloudwatch_metric_alarm.database)) :
      contains(alarm.alarm_actions, "arn:aws:sns:eu-west-1:123456789012:alarms")
    ])
    error_message = "Every alarm must reach somebody."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.no_worker.treat_missing_data == "breaching"
    error_message = "No figures about workers is an alarm, too."
  }

  # addresses
  assert {
    condition     = output.webhook_urls.pagerduty == "https://faultline.example.com/webhooks/pagerduty" && length(output.webhook_urls) == 15 && output.webhook_urls["slack_events_eu-1"] == "https://faultline.example.com/slack/events/eu-1" && output.webhook_urls.changes == "https://faultline.example.com/changes"
    error_message = "The addresses must be those to enter at the vendors."
  }
}

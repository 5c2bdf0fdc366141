# What somebody must look at. Each goes to `alarm_topic_arns`; best not a topic whose alarms the bot itself investigates.

locals {
  # metric of the bot's own, statistic, threshold, minutes in a row, and what it means
  bot_alarms = {
    queue-waits = {
      metric      = local.queue_age_metric
      statistic   = "Maximum"
      threshold   = var.queue_age_alarm_s
      minutes     = 5
      missing     = "breaching" # servers write it every minute: silence means that none does
      description = "Alerts wait for a worker, or no server reports: docs/operating.md, faultline doctor."
    }
    investigations-fail = {
      metric      = "Failed"
      statistic   = "Maximum"
      threshold   = 1
      minutes     = 1
      missing     = "notBreaching"
      description = "An investigation ended without an answer; its channel was told why. faultline doctor names it."
    }
  }

  load_balancer_alarms = {
    server-errors = {
      metric      = "HTTPCode_Target_5XX_Count"
      statistic   = "Sum"
      threshold   = 5
      minutes     = 5
      description = "Servers answer 5xx: webhooks are not acknowledged (vendors try again) or pages fail."
    }
    no-server = {
      metric      = "HTTPCode_ELB_5XX_Count"
      statistic   = "Sum"
      threshold   = 5
      minutes     = 2
      description = "The load balancer has no server to send to."
    }
  }

  database_alarms = {
    database-disk = {
      metric      = "FreeStorageSpace"
      statistic   = "Minimum"
      comparison  = "LessThanThreshold"
      threshold   = 2 * 1024 * 1024 * 1024
      minutes     = 5
      description = "Less than 2 GB free: storage grows by itself up to database_max_storage_gb."
    }
    database-cpu = {
      metric      = "CPUUtilization"
      statistic   = "Average"
      comparison  = "GreaterThanThreshold"
      threshold   = 85
      minutes     = 15
      description = "A larger database_instance_class, or fewer workers."
    }
    database-connections = {
      metric      = "DatabaseConnections"
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = var.database_connections_alarm
      minutes     = 5
      description = "Close to what the database takes; every server and worker holds several."
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "bot" {
  for_each            = local.bot_alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = local.metric_namespace
  metric_name         = each.value.metric
  statistic           = each.value.statistic
  period              = 60
  evaluation_periods  = each.value.minutes
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = each.value.threshold
  treat_missing_data  = each.value.missing
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "load_balancer" {
  for_each            = local.load_balancer_alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = "AWS/ApplicationELB"
  metric_name         = each.value.metric
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix }
  statistic           = each.value.statistic
  period              = 60
  evaluation_periods  = each.value.minutes
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = each.value.threshold
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "no_worker" {
  alarm_name          = "${var.name}-no-worker"
  alarm_description   = "No worker runs: alerts are acknowledged and wait."
  namespace           = "ECS/ContainerInsights"
  metric_name         = "RunningTaskCount"
  dimensions          = { ClusterName = aws_ecs_cluster.this.name, ServiceName = aws_ecs_service.worker.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "database" {
  for_each            = local.database_alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = "AWS/RDS"
  metric_name         = each.value.metric
  dimensions          = { DBInstanceIdentifier = aws_db_instance.this.identifier }
  statistic           = each.value.statistic
  period              = 60
  evaluation_periods  = each.value.minutes
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  treat_missing_data  = "missing"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

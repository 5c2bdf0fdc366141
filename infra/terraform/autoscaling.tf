# More workers while alerts wait, fewer when none has waited for a while. A worker that is taken away in the midst of an
# investigation loses nothing: another goes on with the step that was interrupted.

locals {
  metric_namespace = "Faultline" # what the servers write into their log, in CloudWatch's embedded metric format
  queue_age_metric = "QueueAgeSeconds"
}

resource "aws_appautoscaling_target" "worker" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.worker.name}"
  min_capacity       = var.worker_count_min
  max_capacity       = var.worker_count_max
  tags               = var.tags

  lifecycle {
    precondition {
      condition     = var.worker_count_max >= var.worker_count_min
      error_message = "worker_count_max must be at least worker_count_min."
    }
  }
}

resource "aws_appautoscaling_policy" "more_workers" {
  name               = "${var.name}-more-workers"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.worker.service_namespace
  scalable_dimension = aws_appautoscaling_target.worker.scalable_dimension
  resource_id        = aws_appautoscaling_target.worker.resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Maximum"
    cooldown                = 120

    step_adjustment {
      metric_interval_lower_bound = 0
      metric_interval_upper_bound = 2 * var.queue_age_target_s
      scaling_adjustment          = 1
    }
    step_adjustment {
      metric_interval_lower_bound = 2 * var.queue_age_target_s
      scaling_adjustment          = 4
    }
  }
}

resource "aws_appautoscaling_policy" "fewer_workers" {
  name               = "${var.name}-fewer-workers"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.worker.service_namespace
  scalable_dimension = aws_appautoscaling_target.worker.scalable_dimension
  resource_id        = aws_appautoscaling_target.worker.resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Maximum"
    cooldown                = 300

    step_adjustment {
      metric_interval_upper_bound = 0
      scaling_adjustment          = -1
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "queue_waits" {
  alarm_name          = "${var.name}-more-workers"
  alarm_description   = "The oldest alert has waited for a worker for longer than it should: one more is started."
  namespace           = local.metric_namespace
  metric_name         = local.queue_age_metric
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.queue_age_target_s
  treat_missing_data  = "ignore"
  alarm_actions       = [aws_appautoscaling_policy.more_workers.arn]
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "queue_is_short" {
  alarm_name          = "${var.name}-fewer-workers"
  alarm_description   = "No alert has had to wait for ten minutes: one worker fewer."
  namespace           = local.metric_namespace
  metric_name         = local.queue_age_metric
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 10
  comparison_operator = "LessThanThreshold"
  threshold           = var.queue_age_target_s / 6
  treat_missing_data  = "ignore"
  alarm_actions       = [aws_appautoscaling_policy.fewer_workers.arn]
  tags                = var.tags
}

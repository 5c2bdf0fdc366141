# Two services of one image: servers, which take webhooks and show pages, and workers, which investigate.

data "aws_subnet" "load_balancer" {
  for_each = toset(var.internal ? var.private_subnet_ids : var.public_subnet_ids)
  id       = each.value
}

locals {
  # libpq takes user and password from PGUSER and PGPASSWORD, so that no address with a password in it is put together.
  database_url = join("", [
    "postgresql://${aws_db_instance.this.address}:${aws_db_instance.this.port}/${local.database_name}",
    "?sslmode=verify-full&sslrootcert=${var.database_ca_file}",
  ])

  environment = merge(
    {
      FAULTLINE_CONFIG                  = "/config/faultline.toml"
      FAULTLINE_SERVER__HOST            = "0.0.0.0"
      FAULTLINE_SERVER__PORT            = tostring(local.server_port)
      FAULTLINE_SERVER__PUBLIC_URL      = local.base_url
      FAULTLINE_SERVER__TRUSTED_PROXIES = join(",", sort([for subnet in data.aws_subnet.load_balancer : subnet.cidr_block]))
      FAULTLINE_STORE__DATABASE         = local.database_url
      FAULTLINE_STORE__DIRECTORY        = "/state"
      # Fargate gives a new task a new disk: a restart would lose what lies in the spool.
      FAULTLINE_SPOOL__SURVIVES_RESTART         = "false"
      FAULTLINE_STORE__CASES                    = module.case_store.cases_location
      FAULTLINE_TELEMETRY__CLOUDWATCH_NAMESPACE = local.metric_namespace
      FAULTLINE_TELEMETRY__LOGS                 = "json"
      FAULTLINE_TELEMETRY__WORKER_ADDRESS       = "127.0.0.1:9090"
      AWS_REGION                                = local.region
      # A new number makes new tasks, which then read the new values.
      SECRETS_VERSION = "${var.secrets_version}.${var.database_password_version}"
    },
    var.environment,
  )

  # The servers face the internet, and get no key of a vendor; the workers get nothing that proves a sender.
  secrets = { for process, patterns in local.secret_patterns_of : process => merge(
    {
      for name, secret in aws_secretsmanager_secret.setting : name => secret.arn
      if anytrue([for pattern in patterns : can(regex(pattern, name))])
    },
    {
      PGUSER     = "${module.database_password.secret_arn}:username::"
      PGPASSWORD = "${module.database_password.secret_arn}:password::"
    },
  ) }
  secrets_of = { for process, held in local.secrets : process => [for name in sort(keys(held)) : { name = name, valueFrom = held[name] }] }

  # Writes the settings file where both processes look for it: Fargate has no other way to hand over a small file.
  write_settings = "import os, pathlib; pathlib.Path('/config/faultline.toml').write_text(os.environ['SETTINGS'])"

  container = {
    image                  = var.image
    essential              = true
    user                   = "10001:10001"
    readonlyRootFilesystem = true
    privileged             = false
    stopTimeout            = 120
    environment            = [for name in sort(keys(local.environment)) : { name = name, value = local.environment[name] }]
    dependsOn              = [{ containerName = "settings", condition = "SUCCESS" }]
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    mountPoints = [
      { sourceVolume = "tmp", containerPath = "/tmp", readOnly = false },
      { sourceVolume = "state", containerPath = "/state", readOnly = false },
      { sourceVolume = "config", containerPath = "/config", readOnly = true },
    ]
  }

  log_options = { for bot, group in { server = aws_cloudwatch_log_group.server, worker = aws_cloudwatch_log_group.worker } : bot => {
    logDriver = "awslogs"
    options = {
      awslogs-group         = group.name
      awslogs-region        = local.region
      awslogs-stream-prefix = bot
    }
  } }

  settings_container = {
    name                   = "settings"
    image                  = var.image
    essential              = false
    user                   = "10001:10001"
    readonlyRootFilesystem = true
    privileged             = false
    entryPoint             = ["/app/.venv/bin/python", "-c"]
    command                = [local.write_settings]
    environment            = [{ name = "SETTINGS", value = var.settings }]
    linuxParameters        = { capabilities = { drop = ["ALL"] } }
    mountPoints            = [{ sourceVolume = "config", containerPath = "/config", readOnly = false }]
  }

  healthy = { for bot, url in { server = "http://127.0.0.1:${local.server_port}/healthz", worker = "http://127.0.0.1:9090/healthz" } : bot => {
    command     = ["CMD", "/app/.venv/bin/python", "/app/healthy.py", url]
    interval    = 30
    timeout     = 10
    retries     = 3
    startPeriod = 120
  } }
}

resource "aws_ecs_task_definition" "server" {
  family                   = "${var.name}-server"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.server_cpu
  memory                   = var.server_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.server.arn
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.cpu_architecture
  }

  container_definitions = jsonencode([
    merge(local.settings_container, { logConfiguration = local.log_options.server }),
    merge(local.container, {
      name             = "server"
      command          = ["serve", "--no-worker"]
      secrets          = local.secrets_of["server"]
      portMappings     = [{ containerPort = local.server_port, protocol = "tcp" }]
      healthCheck      = local.healthy.server
      logConfiguration = local.log_options.server
    }),
  ])

  dynamic "volume" {
    for_each = ["tmp", "state", "config"]
    content {
      name = volume.value
    }
  }
}

resource "aws_ecs_service" "server" {
  name                              = "server"
  cluster                           = aws_ecs_cluster.this.id
  task_definition                   = aws_ecs_task_definition.server.arn
  desired_count                     = var.server_count
  launch_type                       = "FARGATE"
  propagate_tags                    = "SERVICE"
  health_check_grace_period_seconds = 120
  enable_execute_command            = false
  tags                              = var.tags

  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.server.id]
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.server.arn
    container_name   = "server"
    container_port   = local.server_port
  }

  depends_on = [
    aws_lb_listener.https,
    aws_iam_role_policy.execution,
    aws_iam_role_policy_attachment.server_cases,
    aws_secretsmanager_secret_version.setting,
  ]
}

resource "aws_ecs_task_definition" "worker" {
  family                   = "${var.name}-worker"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.worker_cpu
  memory                   = var.worker_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.worker.arn
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.cpu_architecture
  }

  ephemeral_storage {
    size_in_gib = var.worker_disk_gb
  }

  container_definitions = jsonencode([
    merge(local.settings_container, { logConfiguration = local.log_options.worker }),
    merge(local.container, {
      name             = "worker"
      command          = ["worker"]
      secrets          = local.secrets_of["worker"]
      healthCheck      = local.healthy.worker
      logConfiguration = local.log_options.worker
    }),
  ])

  dynamic "volume" {
    for_each = ["tmp", "state", "config"]
    content {
      name = volume.value
    }
  }
}

resource "aws_ecs_service" "worker" {
  name                   = "worker"
  cluster                = aws_ecs_cluster.this.id
  task_definition        = aws_ecs_task_definition.worker.arn
  desired_count          = var.worker_count_min
  launch_type            = "FARGATE"
  propagate_tags         = "SERVICE"
  enable_execute_command = false
  tags                   = var.tags

  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.worker.id]
    assign_public_ip = false
  }

  lifecycle {
    ignore_changes = [desired_count] # the queue decides: autoscaling.tf
  }

  depends_on = [
    aws_iam_role_policy.execution,
    aws_iam_role_policy_attachment.worker_cases,
    aws_secretsmanager_secret_version.setting,
  ]
}

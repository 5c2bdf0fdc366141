# PostgreSQL: alerts, investigations, the queue. What is acknowledged is kept here.

module "database_password" {
  source = "./modules/database-password"

  name                 = "${var.name}/database"
  username             = local.database_user
  password_version     = var.database_password_version
  kms_key_arn          = var.kms_key_arn
  recovery_window_days = var.secret_recovery_window_days
  tags                 = var.tags
}

locals {
  database_user = "faultline"
  database_name = "faultline"
}

resource "aws_db_subnet_group" "this" {
  name_prefix = "${var.name}-"
  subnet_ids  = var.private_subnet_ids
  tags        = var.tags
}

resource "aws_db_parameter_group" "this" {
  name_prefix = "${var.name}-"
  family      = "postgres${split(".", var.database_version)[0]}"
  tags        = var.tags

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
  parameter {
    name  = "log_min_duration_statement"
    value = "2000" # ms
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_db_instance" "this" {
  identifier     = var.name
  engine         = "postgres"
  engine_version = var.database_version
  instance_class = var.database_instance_class

  db_name             = local.database_name
  username            = local.database_user
  password_wo         = module.database_password.password
  password_wo_version = var.database_password_version

  storage_type          = "gp3"
  allocated_storage     = var.database_storage_gb
  max_allocated_storage = var.database_max_storage_gb
  storage_encrypted     = true
  kms_key_id            = var.kms_key_arn

  multi_az               = var.database_multi_az
  db_subnet_group_name   = aws_db_subnet_group.this.name
  vpc_security_group_ids = [aws_security_group.database.id]
  publicly_accessible    = false
  parameter_group_name   = aws_db_parameter_group.this.name
  ca_cert_identifier     = "rds-ca-rsa2048-g1"

  backup_retention_period   = var.database_backup_days
  copy_tags_to_snapshot     = true
  delete_automated_backups  = false
  deletion_protection       = var.deletion_protection
  skip_final_snapshot       = !var.deletion_protection
  final_snapshot_identifier = "${var.name}-final"

  auto_minor_version_upgrade      = true
  apply_immediately               = var.database_apply_immediately
  enabled_cloudwatch_logs_exports = ["postgresql", "upgrade"]
  performance_insights_enabled    = true
  performance_insights_kms_key_id = var.kms_key_arn
  tags                            = var.tags

  depends_on = [aws_cloudwatch_log_group.database]
}

# Made before RDS would make them for itself, and keep what is in them for ever.
resource "aws_cloudwatch_log_group" "database" {
  for_each          = toset(["postgresql", "upgrade"])
  name              = "/aws/rds/instance/${var.name}/${each.value}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

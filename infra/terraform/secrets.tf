# One entry for each secret of the settings that is in use. Values come from outside of the state: on the first apply from
# `secret_values`, later from there with a higher `secrets_version`, or from `aws secretsmanager put-secret-value`. One that is
# not given begins as a value that nobody knows: a known one would open the pages, or let anybody sign webhooks.

resource "aws_secretsmanager_secret" "setting" {
  for_each                = var.secrets
  name                    = "${var.name}/${each.value}"
  description             = "Faultline: ${each.value}"
  kms_key_id              = var.kms_key_arn
  recovery_window_in_days = var.secret_recovery_window_days
  tags                    = var.tags
}

resource "aws_secretsmanager_secret_version" "setting" {
  for_each                 = var.secrets
  secret_id                = aws_secretsmanager_secret.setting[each.value].id
  secret_string_wo         = lookup(var.secret_values, each.value, module.database_password.placeholder)
  secret_string_wo_version = var.secrets_version
}

output "secret_arn" {
  description = "The secret: a JSON object with `username` and `password`."
  value       = aws_secretsmanager_secret.database.arn
  depends_on  = [aws_secretsmanager_secret_version.database]
}

output "password" {
  description = "The password itself, for a write-only argument."
  value       = jsondecode(ephemeral.aws_secretsmanager_secret_version.database.secret_string).password
  ephemeral   = true
  sensitive   = true
}

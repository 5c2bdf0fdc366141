output "secret_arn" {
  description = "The secret."
  value       = aws_secretsmanager_secret.database.arn
}

output "password" {
  description = "No password."
  value       = "not-a-password"
  sensitive   = true
}

output "placeholder" {
  description = "Nothing to guess."
  value       = "not-a-secret"
  sensitive   = true
}

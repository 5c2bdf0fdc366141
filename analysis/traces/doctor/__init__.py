"""The trace doctor: rules that turn analyses into diagnoses, in an order of precedence."""

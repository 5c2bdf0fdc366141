"""What people do with an answer in Slack: buttons, forms, the Home tab, the assistant's pane."""

"""What people are called for, produced, recorded and answered: the tests behind docs/oncall.md."""

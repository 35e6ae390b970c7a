"""Everything offline: reads recordings, reports, plans, measures. No service loads it."""

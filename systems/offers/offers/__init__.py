"""offers: riders poll, offerservice asks pricingservice, which asks upstreams. README.md is beside this package."""

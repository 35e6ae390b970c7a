"""The page: two services side by side under the same riders, and the fix of one of them switched while they ride.

- command: `--page` of the demo: starts all, serves the page until Ctrl-C
- service: one pricingservice with its offerservice, which can be changed for another
- traffic: riders and callers without end, more often in bursts than in measured runs
- show: what runs behind the page, and what is seen of each service, second by second
"""

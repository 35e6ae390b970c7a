"""Predictions beside measurements, one module a system. What is common: `rows`.

pricing     the lab's scenario, open loop: gevent, gthread-64, greenlane
part3       the closed loop of the article's third part: gevent, threads, greenlane
pos         orders over RabbitMQ: gevent-200, threads-100, greenlane
"""

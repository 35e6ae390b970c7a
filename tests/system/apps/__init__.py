"""Applications under test. Each module has `application` (WSGI, knows nothing of Greenlane) and `prepare()`.

Every application answers the same requests, so that one load fits all:

    /heavy/<n>  I/O, 6 ms of CPU, I/O; leaves one lasting effect for n      -> {"n": n, "effects": 1, "sum": 5050}
    /light/<n>  a little I/O                                                -> {"n": n, "square": n * n}
    /fail/<n>   raises in the middle of its I/O                             -> 500
    /total      -> {"total": how many effects there are}
"""

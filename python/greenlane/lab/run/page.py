def page(result):
    return "x"

"""Pages: one HTML file each that needs nothing else; light and dark, printable, readable by a screen reader.

    html         text that is HTML already, and escaping of all that is not
    quantities   times, shares and factors in words
    blocks       sections, cards, tables, tabs, figures, legends
    document     the whole file
    svg, axis    what charts are made of
    frame        two axes, marks and names: what plots are drawn in
    charts/      one drawing a file

All pages of results use these: no page brings its own builder, no chart its own axis.
"""

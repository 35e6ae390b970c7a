package offers

import _ "github.com/HdrHistogram/hdrhistogram-go"

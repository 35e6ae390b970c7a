// Code generated: Written by `python -m feed.layout` from record.py, user.py, features.py and service/rules.py; do not edit. DO NOT EDIT.

package main

const (
	titleWords    = 8
	topicCount    = 8
	categoryCount = 24
	userBytes     = 428
	mostWords     = 16
	mostSellers   = 16
	featureCount  = 60
)

var categories = [categoryCount]string{
	"cars",
	"car_parts",
	"motorcycles",
	"flats",
	"houses",
	"garages",
	"jobs",
	"services",
	"phones",
	"laptops",
	"consoles",
	"audio",
	"cameras",
	"furniture",
	"kitchen",
	"garden",
	"clothes",
	"shoes",
	"children",
	"bicycles",
	"sport",
	"books",
	"music",
	"pets",
}

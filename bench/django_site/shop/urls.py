"""Addresses: the same as the pricing demo's, so that the same load fits."""

from django.urls import path

from shop import views

urlpatterns = [
    path("bikes", views.bikes),
    path("quote", views.quote),
    path("receipt", views.receipt),
    path("report", views.report),
]

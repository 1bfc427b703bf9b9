"""Strict reading and atomic writing of JSON, tables and shipped documents."""

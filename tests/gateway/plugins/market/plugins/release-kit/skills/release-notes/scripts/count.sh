#!/bin/sh
grep -c "^- " "$1"

#!/usr/bin/env bash
# The report is tested in a real browser. Installs Debian's Chromium where that is possible; elsewhere the
# browser tests are skipped and say so.
set -u
if [ -n "${ARENA_CHROMIUM:-}" ] || command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing chromium for the browser tests"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null && exit 0
fi
echo "no Chromium: the browser tests will be skipped (install one, or set ARENA_CHROMIUM to its path)"

# SPDX-License-Identifier: Apache-2.0
#
# For the scripts here: test cases, a compiler for programs of users, and an installation of our own.
# shellcheck shell=bash
n=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check SENTENCE COMMAND...: one test case.
check() {
    local sentence=$1
    shift
    n=$((n + 1))
    if "$@" >"$work/check.out" 2>&1; then
        echo "ok $n - $sentence"
    else
        echo "not ok $n - $sentence"
        sed 's/^/# /' "$work/check.out"
        failed=1
    fi
}

finish() {
    echo "1..$n"
    exit $failed
}

# Installs what was built below $work/stage, and lets pkg-config, the loader and `cc` find it. A
# library that was built with a sanitizer needs programs that are, too.
install_stage() {
    local libdir compiler
    read -ra compiler <<<"${CC:-cc}"
    compiler[0]=$(command -v "${compiler[0]}") || return 1 # before our own `cc` stands before it
    meson install -C "${BUILD:?the build directory}" --no-rebuild --quiet --destdir "$work/stage" ||
        return 1
    libdir=$(dirname "$(find "$work/stage" -name libnorn.so)")
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "${compiler[*]}" \
        "$([ "${SANITIZE:-none}" = none ] || echo "-fsanitize=$SANITIZE")" >"$work/bin/cc"
    chmod +x "$work/bin/cc"
    export PKG_CONFIG_PATH="$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/stage"
    export LD_LIBRARY_PATH="$libdir"
    export PATH="$work/bin:$(dirname "$(find "$work/stage" -path "*/bin/norn" -type f)"):$PATH"
}

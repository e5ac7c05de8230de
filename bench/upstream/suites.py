# SPDX-License-Identifier: MIT
"""The suites that bench/upstream/run knows. Each has a preparation, which is done once, and a test, which is run with and
without stint-run. Both are bash; the test writes `$RUN` in front of what is to be metered. What the test prints, or writes
into the file $RESULTS, must be the same both ways; the lines that match `counted` are its tests.

In both: $CACHE the suite's own folder, where they run; $SOURCES the unpacked sources; $BUILD and $TREE those of stint."""
import dataclasses


@dataclasses.dataclass
class Suite:
    name: str
    version: str  # a command that prints it
    test: str
    counted: str = r"^"  # the lines of the result that are tests
    compared: str = r""  # the lines that are compared; others are there for people
    prepare: str = ""
    packages: tuple = ()
    sources: tuple = ()
    small: str = ""  # the test for --small; none: the suite is left out there


def of_package(name):
    return "dpkg-query -W -f '${Version}' " + name


PYTHON = ("test_json test_re test_list test_dict test_unicode test_zlib test_ast test_gc test_threading test_subprocess "
          "test_struct")
# One of test_re wants ten searches in a tenth of a second, which a busy machine fails with and without stint-run.
PYTHON_TEST = """
rm -f junit.xml
$RUN /usr/bin/python3 -m test -i test_search_anchor_at_beginning --junit-xml="$CACHE/junit.xml" {modules} >log 2>&1; echo "status $?"
/usr/bin/python3 - <<'END'
import xml.etree.ElementTree as xml
for case in xml.parse("junit.xml").iter("testcase"):
    print(case.get("name"), case.get("result"), *sorted(child.tag for child in case if child.tag in ("error", "failure")))
END
"""

GIT_TESTS = ("t0000-basic.sh t0001-init.sh t1300-config.sh t1400-update-ref.sh t3200-branch.sh t3400-rebase.sh t4001-diff-rename.sh "
             "t5300-pack-object.sh t6030-bisect-porcelain.sh t7400-submodule-basic.sh")
GIT_TEST = """
cd "$SOURCES/git/t" && rm -rf "$CACHE/trash" && mkdir -p "$CACHE/trash"
export GIT_TEST_INSTALLED=/usr/bin GIT_TEST_DEFAULT_HASH=sha1
for script in {scripts}; do $RUN /bin/sh ./$script --root="$CACHE/trash" 2>&1; done
"""

SQLITE_TESTS = ("alter btree01 collate1 conflict cse delete e_expr e_select func index insert join malloc3 memsubsys1 "
                "misc1 select1 select9 softheap1 subquery thread1 thread001 trans trigger1 vacuum view wal where window1")
SQLITE_TEST = """
cd "$SOURCES/sqlite3/bld"
for test in {tests}; do $RUN ./testfixture ../test/$test.test 2>&1; done
"""

PERL_TEST = """
cd "$SOURCES/perl/t"
export PERL_CORE=1
$RUN /usr/bin/prove -e /usr/bin/perl -I../lib {tests} 2>&1
"""

GCC_TEST = """
rm -rf objects && mkdir objects
while read -r source flags; do
    name=$(basename "$source" .c)
    (cd "$BUILD" && eval "$RUN gcc $flags -c '$source' -o '$CACHE/objects/$name.o'") 2>&1
done < <(awk 'NR % {every} == 0' units)
sha256sum objects/*.o
"""

NODE_TEST = """
cd "$SOURCES/nodejs"
$RUN node --test --test-reporter=tap {tests} 2>&1
"""

REDIS_TEST = """
# A part of the time is the clients', which are not metered.
rm -f dump.rdb
$RUN redis-server --port 0 --unixsocket "$CACHE/socket" --save '' --dir "$CACHE" --enable-debug-command local >log 2>&1 &
server=$!
until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.05; done
redis-cli -s socket --pipe <commands | grep -v '^All data'
redis-cli -s socket dbsize
redis-cli -s socket debug digest
redis-benchmark -s socket -q -n {requests} -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset >benchmark || echo failed
redis-cli -s socket flushall
redis-cli -s socket shutdown nosave
wait $server; echo "status $?"
"""

SUITES = [
    Suite(
        "python3", of_package("python3.11"), PYTHON_TEST.format(modules=PYTHON),
        packages=("libpython3.11-testsuite",), small=PYTHON_TEST.format(modules="test_json test_dict test_re")),
    Suite(
        "perl", of_package("perl"),
        PERL_TEST.format(tests="base/*.t cmd/*.t op/s*.t"),
        counted=r"^\S+\.t \.", compared=r"^\S+\.t \.|^Files=|^Result|Failed",
        # The modules of the installed perl, beside the tests of the source.
        prepare="""
cd "$SOURCES/perl" && rm -rf lib && mkdir lib
cp -rL /usr/share/perl/5.*.*/. /usr/lib/x86_64-linux-gnu/perl/5.*.*/. lib/ && cp -rL /usr/lib/x86_64-linux-gnu/perl-base/. lib/
ln -sf /usr/bin/perl t/perl
""", sources=("perl",), small=PERL_TEST.format(tests="base/*.t cmd/*.t")),
    Suite(
        "git", of_package("git"), GIT_TEST.format(scripts=GIT_TESTS),
        counted=r"^(not )?ok \d", compared=r"^(not )?ok \d|^#",
        prepare="""
cd "$SOURCES/git" && make -j2 prefix=/usr NO_GETTEXT=1 CFLAGS=-O1 GIT-BUILD-OPTIONS t/helper/test-tool git bin-wrappers/git
make -C templates
""", packages=("libcurl4-gnutls-dev", "libexpat1-dev", "libpcre2-dev", "zlib1g-dev"), sources=("git",),
        small=GIT_TEST.format(scripts="t0001-init.sh t4001-diff-rename.sh")),
    Suite(
        "gcc: the library of this project, file by file", "gcc -dumpfullversion", GCC_TEST.format(every=1), prepare="""
ninja -C "$BUILD" -t compdb | python3 -c '
import json, shlex, sys
for unit in json.load(sys.stdin):
    words = shlex.split(unit["command"])
    if unit["file"].endswith(".c") and unit["output"].startswith(("alloc/libstint", "libstint.so")):
        flags = [word for word in words if word.startswith(("-I", "-i", "-D", "-O", "-f", "-std", "-pthread", "-g"))]
        print(unit["file"], shlex.join(flags))' >units
""", small=GCC_TEST.format(every=4)),
    Suite(
        "make and gcc: zlib and its tests", of_package("zlib1g"), """
rm -rf zlib && cp -r "$SOURCES/zlib" zlib && cd zlib
{ $RUN ./configure && $RUN make check; } >../log 2>&1; echo "status $?"
grep -E 'test' ../log | grep -v gcc
sha256sum libz.a libz.so.1.* *.o
""", sources=("zlib",), small="""
rm -rf zlib && cp -r "$SOURCES/zlib" zlib && cd zlib
./configure >/dev/null && $RUN make check 2>&1 | grep OK
"""),
    Suite(
        "make and gcc: lua", of_package("liblua5.4-0"), """
rm -rf lua && cp -r "$SOURCES/lua5.4" lua && cd lua
$RUN make -C src -j2 linux >../log 2>&1; echo "status $?"
sha256sum src/*.o src/lua src/luac
$RUN src/lua -v
""", sources=("lua5.4",)),
    Suite(
        "sqlite3", of_package("libsqlite3-0"), SQLITE_TEST.format(tests=SQLITE_TESTS),
        counted=r"\.\.\. Ok$|^! ", compared=r"\.\.\. Ok$|^! |errors out of|^Time: \S+ \d+ ms\Z",
        prepare="""
cd "$SOURCES/sqlite3" && mkdir -p bld && cd bld
../configure --with-tcl=/usr/lib/tcl8.6 CFLAGS=-O1 && make -j2 testfixture
""", packages=("tcl8.6-dev",), sources=("sqlite3",)),
    Suite(
        "libxml2: its tests, and xmllint", of_package("libxml2"), """
# Debian's source lacks the documents of runtest: xmllint reads those of other packages.
cd "$SOURCES/libxml2"
$RUN ./testapi 2>&1
$RUN ./testchar 2>&1
$RUN ./testdict 2>&1
for file in /usr/share/xml/iso-codes/*.xml /usr/share/mime/packages/*.xml; do
    $RUN /usr/bin/xmllint --nonet --noent --debug "$file" 2>&1 | sha256sum
done
""", counted=r"", prepare="""
cd "$SOURCES/libxml2" && [ -e configure ] || autoreconf -fi
./configure --without-python --disable-static CFLAGS=-O1 && make -j2 && make -j2 testapi testchar testdict
""", packages=("libxml2-utils", "autoconf", "automake", "libtool", "iso-codes", "shared-mime-info"), sources=("libxml2",)),
    Suite(
        "node", "node --version", NODE_TEST.format(
            tests="test/parallel/test-buffer-a*.js test/parallel/test-worker-m*.js test/parallel/test-zlib-b*.js"),
        counted=r"^(not )?ok ", compared=r"^(not )?ok ", packages=("nodejs",), sources=("nodejs",)),
    Suite(
        "redis", of_package("redis-server"), REDIS_TEST.format(requests=50000),
        prepare="""
awk 'BEGIN { srand(1); for (i = 0; i < 200000; i++) { k = int(rand() * 20000);
    printf "SET s%d %d\\r\\nLPUSH l%d %d\\r\\nHSET h%d f%d %d\\r\\nZADD z%d %d m%d\\r\\nDEL s%d\\r\\n",
    k, i, k % 500, i, k % 700, i % 50, i, k % 300, i, i % 900, (k * 7) % 20000 } }' >commands
""", packages=("redis-server", "redis-tools")),
    Suite(
        "PostgreSQL", of_package("postgresql-15"), """
rm -rf instance output && mkdir output && chown postgres "$CACHE" output
export PATH=/usr/lib/postgresql/15/bin:$PATH
runuser -u postgres -- $RUN /usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress --temp-instance="$CACHE/instance" \\
    --inputdir="$SOURCES/postgresql-15/src/test/regress" --outputdir="$CACHE/output" --bindir=/usr/lib/postgresql/15/bin \\
    --dlpath="$CACHE" --max-concurrent-tests=20 --schedule="$SOURCES/postgresql-15/src/test/regress/parallel_schedule" 2>&1
cat output/regression.diffs 2>/dev/null | grep '^diff' | sed 's/ .*expected/ expected/'
""", counted=r"\.\.\. ", compared=r"\.\.\. |^diff|tests (passed|failed)",
        prepare="""
gcc -O1 -fPIC -shared -I"$(/usr/lib/postgresql/15/bin/pg_config --includedir-server)" \\
    "$SOURCES/postgresql-15/src/test/regress/regress.c" -o regress.so
cp /usr/lib/postgresql/15/lib/autoinc.so /usr/lib/postgresql/15/lib/refint.so .
chmod -R a+rX "$SOURCES/postgresql-15" "$CACHE"
""", packages=("postgresql-15", "postgresql-server-dev-15"), sources=("postgresql-15",)),
]

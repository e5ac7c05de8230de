#!/bin/sh
# SPDX-License-Identifier: MIT
# format.sh SCRIPT LAYOUT: scripts/format breaks long comments and paragraphs, keeps tables in them, and leaves what it has
# laid out alone.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/scripts" "$scratch/alloc" "$scratch/docs"
cp "$1" "$scratch/scripts/format"
cp "$2" "$scratch/.clang-format"
format=$scratch/scripts/format
file=$scratch/alloc/comments.h

fail() {
  echo "$*" >&2
  exit 1
}

cat >"$file" <<'CODE'
/* A sentence that is longer than a line has room for goes on in the next one, as far as it has to, and where it ends with a word.
 *
 *   key     a row of a table goes on below its text, and not at the beginning of the line, where it would not be seen any more
 *           as what it is
 *   other   is another row */
int first(void);

/* Of a comment that is too long by nothing but its end, a word goes down with that, so that the end is not all alone. */
int  second(void);
CODE
cat >"$scratch/wanted" <<'CODE'
/* A sentence that is longer than a line has room for goes on in the next one, as far as it has to, and where it ends
 * with a word.
 *
 *   key     a row of a table goes on below its text, and not at the beginning of the line, where it would not be seen
 *           any more as what it is
 *   other   is another row */
int first(void);

/* Of a comment that is too long by nothing but its end, a word goes down with that, so that the end is not all
 * alone. */
int second(void);
CODE
cat >"$scratch/docs/page.md" <<'PAGE'
| a row of a table | that is longer than a line, and has to be one line all the same, as there is no other way to write it down |
| --- | --- |

- An item that is longer than a line has room for goes on below its text, and `code with blanks` stays in one piece, too.
- Another.

    an example that is longer than a line has room for stays as it is, for nobody knows what the end of a line means there

Short lines
stay.
PAGE
cat >"$scratch/wanted.md" <<'PAGE'
| a row of a table | that is longer than a line, and has to be one line all the same, as there is no other way to write it down |
| --- | --- |

- An item that is longer than a line has room for goes on below its text, and `code with blanks` stays in one piece,
  too.
- Another.

    an example that is longer than a line has room for stays as it is, for nobody knows what the end of a line means there

Short lines
stay.
PAGE
"$format" --check "$scratch/docs/page.md" && fail 'lets a long line of a document pass'
"$format" "$scratch/docs/page.md" >/dev/null
diff -u "$scratch/wanted.md" "$scratch/docs/page.md" || fail 'wraps it differently'
"$format" --check "$scratch/docs/page.md" || fail 'would change what it has wrapped'

said=$("$format" --check) && checked=true || checked=false
case $said in
  'not checked:'*)
    echo "not tested: ${said#not checked: }"
    exit 77
    ;;
esac
$checked && fail 'lets pass what is not laid out'
echo "$said" | grep -qx alloc/comments.h || fail "does not name the file: $said"
"$format" >/dev/null
diff -u "$scratch/wanted" "$file" || fail 'lays it out differently'
"$format" --check || fail 'would change what it has laid out'

# Another version, and none.
mkdir "$scratch/bin"
for name in clang-format clang-format-14; do
  printf '#!/bin/sh\necho "clang-format version 19.1.7"\n' >"$scratch/bin/$name"
  chmod +x "$scratch/bin/$name"
done
printf 'int   third(void);\n' >>"$file"
PATH=$scratch/bin:$PATH "$format" --check | grep -q '^not checked: .* version 19' || fail 'is not content with another version'
if PATH=$scratch/bin:$PATH "$format" 2>"$scratch/error"; then fail 'writes with another version'; fi
grep -q 'version 19' "$scratch/error" || fail 'does not say what is wrong'

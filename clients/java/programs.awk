# Writes each block of Java in pages to a file with the name of its class: to the folder `spring` if it imports a library that the
# project there has, else to `out`.
/^```java$/ { code = 1; text = name = ""; folder = out; next }
/^```/ && code {
    code = 0
    file = folder "/" name ".java"
    if (name == "") { print "a block of Java without a class" > "/dev/stderr"; exit 1 }
    if (folder != "") printf "%s", text > file
    close(file)
}
code {
    text = text $0 "\n"
    if (/^import (org\.springframework|net\.javacrumbs)\./) folder = spring
    if (name == "" && /^(public )?(class|record) /) {
        name = $1 == "public" ? $3 : $2
        sub(/\(.*/, "", name)
    }
}

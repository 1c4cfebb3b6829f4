# Counts code lines: no blank lines, comments, imports, and no lines of brackets alone, which other languages do not have.
/^ *\/\*/ { comment = 1 }
!comment && !/^ *(\/\/.*)?$/ && !/^(package|import) / && !/^[ (){}\[\];,]*$/ { code++ }
/\*\/ *$/ { comment = 0 }
END { print code + 0 }

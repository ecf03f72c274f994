# complete.bash WORDS...: what bash offers for the last word, as readline splits the line; `files` where it would offer those.
source <(minic doc completion-bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_minic
echo "${COMPREPLY[*]:-files}"

au BufRead,BufNewFile *.ir setfiletype minic

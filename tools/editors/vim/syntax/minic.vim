" Vim syntax of minic's IR. Written by `minic doc vim-syntax` from the op tables; do not edit.
if exists("b:current_syntax")
  finish
endif

syn match minicNumber /-\=\<\d\+\%(\.\d*\)\=\%([eE][+-]\=\d\+\)\=\ze\%(\>\|x\)/
syn match minicNumber /-\=\<0[xX]\x\+\%(\.\x*\)\=\%([pP][+-]\=\d\+\)\=\>/
syn match minicConstant /-\=\<\%(inf\|nan\|true\|false\)\>/
syn match minicConstant /\<\%(all\|bf16x6\|bias\|both\|cublaslt\|eq\|full\|ge\|gt\|lane\|le\|lhs\|lt\|matmul\|max\|min\|n\|ne\|nn\|nt\|optional\|previous\|reg\|rhs\|split\|stream\|sum\|t\|tf32\|this\|thread\|tn\|tt\|unchecked\)\>/
syn match minicElementType /\%(\<\|x\@1<=\)\%(bf16\|f16\|f32\|f64\|f8e4m3\|f8e5m2\|i1\|i32\|i64\|i8\|index\|u8\)\>/
syn match minicType /\<[a-z_]\+\ze</
syn match minicOp /\%(^\s*\|=\s*\|{\s*\)\@<=\%(abs\|add\|alloc\|alloc_shared\|and\|argmax\|barrier\|bitcast\|broadcast\|ceil\|clamp\|cluster_arrive\|cluster_store\|cluster_wait\|compare\|concat\|constant\|convert\|convert_layout\|copy\|cos\|cp_async\|cp_async_commit\|cp_async_wait\|cumsum\|custom\|dim\|div\|div_u\|dot\|erf\|erf_half\|exp\|exp2\|exp2_approx\|exp_half\|exp_nonpositive\|expm1\|extract_tile\|fence_async\|floor\|fma\|for\|fusion\|gather\|gelu\|gelu_half\|gelu_tanh\|gelu_tanh_half\|in_bounds\|iota\|launch\|launch_wait\|layernorm\|ldmatrix\|library_call\|load\|log\|log1p\|log2\|matmul\|max\|mbarrier_arrive\|mbarrier_expect\|mbarrier_init\|mbarrier_wait\|mean\|min\|mma\|mul\|neg\|not\|or\|pad\|pow\|program_id\|ptx\|rcp_approx\|reduce\|relu\|rem\|rem_u\|reshape\|return\|rmsnorm\|role\|round\|rsqrt\|select\|shared_load\|shared_store\|shared_view\|shl\|shr_s\|shr_u\|sigmoid\|sigmoid_half\|sign\|silu\|silu_half\|sin\|size\|slice\|softmax\|spread\|sqrt\|stage\|stmatrix\|store\|sub\|tanh\|tanh_half\|tensor_map\|tma_load\|tma_prefetch\|tma_store\|tma_store_wait\|transpose\|undefined\|view\|wgmma\|wgmma_wait\|xor\|yield\)\>/
syn match minicAttribute /\<\l\w*\ze\s*==\@!/
syn match minicLayout /#\w\+/
syn match minicFunction /@\w\+/
syn match minicValue /%\w\+/
syn match minicKeyword /\<where\>/
syn match minicKeyword /\<at\s\+\%(fused\|graph\|machine\|masked\|tile\)\>/
syn match minicKeyword /^\s*\%(minic\|module\)\>/
syn match minicKeyword /^\s*\%(custom\|graph\|kernel\|plan\)\ze\s\+@/
syn region minicString start=/"/ skip=/\\["\\]/ end=/"/
syn match minicComment /\/\/.*$/

hi def link minicNumber Number
hi def link minicConstant Constant
hi def link minicElementType Type
hi def link minicType Type
hi def link minicOp Statement
hi def link minicAttribute Special
hi def link minicLayout PreProc
hi def link minicFunction Function
hi def link minicValue Identifier
hi def link minicKeyword Keyword
hi def link minicString String
hi def link minicComment Comment

syn sync fromstart
let b:current_syntax = "minic"

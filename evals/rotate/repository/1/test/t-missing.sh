! rotate nothing 2> err
grep -q 'no such file: nothing' err

"""What a check finds."""


class Failure(Exception):
    """`kind` says which promise is broken, the same for one fault in graphs of any size."""

    def __init__(self, kind, text):
        super().__init__(kind, text)
        self.kind, self.text = kind, text

"""What is compared with what, of the rows that peers.py measured. Needs nothing but Python."""

import cases


def rows_of(documents):
    """Of each case the rows of the last run that has it: what one run measured is compared with nothing of another."""
    latest = {}
    for document in documents:
        of_run = {}
        for row in document["rows"]:
            of_run.setdefault((row["work"], row["shape"], row["dtype"]), []).append(row)
        latest.update(of_run)
    return [row for rows in latest.values() for row in rows]


def headline(row):
    """The time that a row is judged by: inside a graph where launching takes as long as the work, else with a cold L2."""
    return row["graph_ms"] if row["small"] else row["ms"]


def grouped(rows):
    """{(shape, dtype): {provider: row}}, in the order of the rows."""
    groups = {}
    for row in rows:
        groups.setdefault((row["shape"], row["dtype"]), {})[row["provider"]] = row
    return groups


def is_peer(row):
    """Neither minic nor only a limit; the copy is a peer at copying."""
    return row["provider"] not in cases.MINIC and (row["provider"] not in cases.REFERENCES or row["work"] == "copy")


def best_peer(row_of):
    """The row of the fastest peer; None if none has a time."""
    peers = [row for row in row_of.values() if is_peer(row) and row["ok"] and headline(row)]
    return min(peers, key=headline) if peers else None


def time_of(row_of, provider):
    """The headline of a provider's right result; None if there is none."""
    row = row_of.get(provider)
    return headline(row) if row and row["ok"] else None


def quotient(row_of, above, below):
    """The time of one provider over that of another; None if one of them has none."""
    times = time_of(row_of, above), time_of(row_of, below)
    return times[0] / times[1] if all(times) else None


def limit_of(work):
    """The provider that does no more than to move the bytes that the work requires; None where there is none."""
    return cases.COPY if work != "copy" and cases.COPY in cases.PROVIDERS[work] else None


def label(row_of):
    row = next(iter(row_of.values()))
    return f"{row['shape']} {row['dtype']}" + (", graph" if row["small"] else "")

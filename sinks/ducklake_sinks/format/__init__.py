"""What `df.write` and `df.writeStream` with `format("ducklake")` do: plan, write on executors, commit."""

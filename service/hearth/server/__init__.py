"""Former name of `hearth.daemon`, for commands of earlier versions. Remove it two releases after 0.1."""

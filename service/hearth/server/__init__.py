"""Former name of `hearth.daemon`, for commands of earlier versions. To be removed two releases after 0.1."""

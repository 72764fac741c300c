from gpu.place import Place
def write(place: Place) -> str:
    return ""

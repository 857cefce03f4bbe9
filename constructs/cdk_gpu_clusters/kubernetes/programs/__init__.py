"""Programs that manifests bring into containers, whose images have what they import."""

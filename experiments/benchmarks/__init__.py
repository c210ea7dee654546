"""What speed and memory are asked of numjax, measured beside what people would use instead."""
